"""Tickets by rules of a grammar: what happened, then what is wanted, in other words per split.

A wording is a first clause with a second one. Neither clause of a wording of val or test is in
train, so a word list that train supports does not simply carry over. ``{}`` is a thing that was
bought. Few clauses have a word of a sheet, or the words of another clause of their topic.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

SPLITS: Final[Mapping[str, tuple[slice, slice]]] = {
    "train": (slice(0, 6), slice(0, 5)),
    "val": (slice(6, 9), slice(5, 8)),
    "test": (slice(9, 15), slice(8, 12)),
}
"""Split -> which first and which second clauses; 30, 9 and 24 wordings of a topic."""

_CLAUSES: Final[Mapping[str, tuple[str, str]]] = {
    "refund": (
        "I sent the {} back|You have the {} again|The {} went back to you|I returned the {}|"
        "I handed the {} in at your store|The {} is yours once more|I gave the {} back|"
        "The {} was picked up from my porch for return|Your driver took the {} away again|"
        "I dropped the {} off at the return point|The {} no longer is in my hands|"
        "I shipped the {} to your return address|My sister mailed you the {}|"
        "You confirmed that the {} came back|I changed my mind and undid the purchase of the {}",
        "my money is still missing|nothing was paid back|please refund it|I am owed its price|"
        "no cent has come so far|my card shows no credit|you have not settled with me|"
        "my bank sees no transfer|the sum is yet to reach me|kindly reimburse me|"
        "the amount was never credited|I would like my dollars again",
    ),
    "late": (
        "I ordered the {} two weeks ago|The {} was due on Monday|My {} was sent in March|"
        "I look out for the {} every day|The {} should be here by now|You promised the {} today|"
        "The tracking of the {} stands still|The {} left your depot long ago|"
        "My neighbor got his {} and I did not|I stayed at home for the {}|"
        "My order of a {} is stuck|The date for the {} has passed|"
        "A truck was to bring the {}|I counted on the {} for the weekend|"
        "The {} is somewhere between you and me",
        "it has not arrived|I am still waiting|nobody delivered it|when will it come|"
        "where is the parcel|it is nowhere to be seen|the courier did not show up|"
        "how much longer will it take|my doorstep is empty|has it got lost on the road|"
        "the van drove past again|what is holding it up",
    ),
    "broken": (
        "I unpacked the {}|The {} came today|I used the {} once|My new {} is on the table|"
        "I plugged the {} in|I took the {} out of its box|I looked closely at the {}|"
        "After one evening with the {}|I turned the {} around|My son opened the {}|"
        "I wanted to try the {}|The {} made a strange noise|Out of its wrapping the {} fell|"
        "I held the {} up to the light|On its second day the {} quit",
        "it is broken|there is a crack in it|it does not work|a part is damaged|it has a dent|"
        "a piece came off|it will not switch on|one side is torn|it is in splinters|"
        "the handle snapped|smoke rises from it|it is bent out of shape",
    ),
    "login": (
        "I forgot my password|I typed my user name|I try to sign in|I opened your site|"
        "I got a new phone|I entered the code|I clicked on reset|My browser was updated|"
        "I changed my email|I moved to another computer|I wanted to see my orders online|"
        "Your app asks who I am|I was away for a year|My daughter used my tablet|"
        "I pressed enter",
        "my account is locked|the login is refused|I cannot get in|it says unknown user|"
        "no mail with a link comes|the page only shows an error|I am thrown out again|"
        "my name is not recognized|the screen asks for it over and over|"
        "access is denied|it tells me that I do not exist|my profile stays shut",
    ),
    "invoice": (
        "I bought the {} for my company|I do my taxes|The {} was a gift from our office|"
        "My boss paid for the {}|The {} is for my business|I keep papers of all I buy|"
        "Our accountant asked about the {}|My firm ordered the {}|I claim the {} as an expense|"
        "The {} goes on our books|The auditor looked at the {}|We are a school that got the {}|"
        "My employer pays for the {} if I prove it|The year ends and the {} is to be declared|"
        "Our club wants its treasurer to see the {}",
        "please send the invoice|I need a receipt|the bill has a wrong address|"
        "our tax number is not on the paper|I lost the document that shows the price|"
        "can I have a copy for our files|the VAT is not listed|the name on it is misspelled|"
        "a written statement of what it cost would help|could you print proof of purchase|"
        "we want it in writing with a date|the total is not broken down anywhere",
    ),
    "job": (
        "I saw your sign in the window|I am a student|I have driven trucks for years|"
        "I am new in town|I have sold shoes before|My friend is a clerk with you|"
        "I can lift heavy boxes|I just finished school|I speak three languages|"
        "I am free from May on|I was a cashier for a decade|My last boss closed his store|"
        "I like your team|I am looking for something part time|I have a degree in sales",
        "do you have a job for me|how do I apply|I want to work for you|are you hiring|"
        "here is my resume|is the position still open|may I come for an interview|"
        "could I start as a trainee|whom do I send my papers to|is there a vacancy|"
        "I would gladly join your staff|what do you pay per hour",
    ),
}


def grammar_wordings(split: str) -> dict[str, Sequence[str]]:
    """Return topic -> wordings of ``train``, ``val`` or ``test``."""
    firsts, seconds = SPLITS[split]
    found: dict[str, Sequence[str]] = {}
    for topic, clauses in _CLAUSES.items():
        before, after = (clause.split("|") for clause in clauses)
        found[topic] = [
            f"{one}, {other}." for one, other in product(before[firsts], after[seconds])
        ]
    return found
