"""Common sentences: what a query is compared to where a bank holds too few memories to tell what is usual."""

from __future__ import annotations

SENTENCES = tuple(
    line.strip()
    for line in """
    The meeting was moved to Thursday afternoon.
    She bought two tickets for the concert.
    I had pasta for dinner last night.
    The train was late again this morning.
    He prefers tea to coffee.
    The server returned an error after the update.
    We painted the kitchen light blue.
    My brother started a new job in a bank.
    The dog barked at the mail carrier.
    They are planning a trip to the mountains.
    The report is due at the end of the month.
    I forgot my umbrella on the bus.
    The doctor told her to rest for a week.
    Our flight leaves at six in the evening.
    He plays the guitar in a small band.
    The invoice was paid twice by mistake.
    The garden needs water in summer.
    She is learning to drive.
    The database was restored from a backup.
    It rained all weekend.
    I read a long novel about the sea.
    The children built a house of cards.
    Prices went up again this year.
    He broke his arm while skiing.
    The new phone has a better camera.
    We watched an old film together.
    The teacher gave us a difficult exercise.
    My grandmother turned ninety in May.
    The bakery on the corner closes early.
    She wants to lose some weight before the wedding.
    The team won the final by one goal.
    I sold my car and ride a bicycle now.
    The password must be changed every quarter.
    He is afraid of heights.
    The museum shows paintings from the last century.
    They adopted a cat from the shelter.
    The contract was signed by both sides.
    I always run along the river before work.
    The heating in the office is broken.
    She gave a talk about climate change.
    The test fails on the second run only.
    We are saving money for a house.
    He doesn't eat fish.
    The neighbours are noisy at night.
    The package arrived without the cable.
    I moved to another city for my studies.
    The election results were announced on Sunday.
    She sewed a dress for her daughter.
    Thank you, that is very kind of you!
    What do you think about it?
    That sounds great, good luck with it.
    Ich habe gestern lange gearbeitet.
    Wir fahren im Sommer ans Meer.
    Das Treffen ist am Montag um zehn Uhr.
    Ella trabaja en un hospital.
    Mañana vamos al mercado.
    Il a perdu ses clés dans le parc.
    Nous mangeons souvent au restaurant.
    昨日は友達と映画を見ました。
    来週、京都へ旅行に行きます。
    今天天气很好。
    我们明天开会。
    오늘은 일이 많았어요.
    Мы живём в большом городе.
    """.strip().splitlines()
)
