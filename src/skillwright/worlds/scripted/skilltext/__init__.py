"""Recognize rules of conduct and storage habits in the free text of a household skill."""

from skillwright.worlds.scripted.skilltext.readers import read_conduct as read_conduct
from skillwright.worlds.scripted.skilltext.readers import read_stances as read_stances
from skillwright.worlds.scripted.skilltext.rules import BAD_RULES as BAD_RULES
from skillwright.worlds.scripted.skilltext.rules import EXPERT_CONDUCT as EXPERT_CONDUCT
from skillwright.worlds.scripted.skilltext.rules import GOOD_RULES as GOOD_RULES
from skillwright.worlds.scripted.skilltext.rules import OBJECT_CLASSES as OBJECT_CLASSES
from skillwright.worlds.scripted.skilltext.rules import Conduct as Conduct
from skillwright.worlds.scripted.skilltext.rules import Habit as Habit
from skillwright.worlds.scripted.skilltext.rules import Rule as Rule
from skillwright.worlds.scripted.skilltext.rules import Stance as Stance
from skillwright.worlds.scripted.skilltext.rules import read_habits as read_habits
