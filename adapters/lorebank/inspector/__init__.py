"""The inspector: pages on loopback where people see and steer their memory. Needs the extra `inspect`.

`guard` lets in who has the token, `app` knows the routes, the other files are one page each; `serving` runs it all.
"""
