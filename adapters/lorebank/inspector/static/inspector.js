"use strict";
// The pages work without this: it puts the focus where the news is, and gives the search a key.
(() => {
  const field = document.getElementById("q");
  const news = document.querySelector(".note, .fault");
  const count = document.getElementById("count");
  const named = document.getElementById(location.hash.slice(1));
  if (named) {
    const control = named.nextElementSibling && named.nextElementSibling.querySelector("textarea, button");
    // once the browser itself has gone to the place, which takes the focus away
    if (control) addEventListener("load", () => setTimeout(() => control.focus({ preventScroll: true })));
  } else if (news) {
    news.tabIndex = -1;
    news.focus();
  } else if (count) {
    count.focus();
  } else if (field) {
    field.focus();
  }
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (field) field.focus();
    else location.assign("/");
  });
})();
