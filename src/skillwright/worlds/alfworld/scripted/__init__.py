"""The scripted household agent: what it reads, believes and does."""

from skillwright.worlds.alfworld.scripted.agent import ScriptedHousehold as ScriptedHousehold
from skillwright.worlds.alfworld.scripted.agent import decide as decide
from skillwright.worlds.alfworld.scripted.belief import APPLIANCES as APPLIANCES
from skillwright.worlds.alfworld.scripted.belief import Belief as Belief
from skillwright.worlds.alfworld.scripted.belief import Errand as Errand
from skillwright.worlds.alfworld.scripted.belief import Kind as Kind
from skillwright.worlds.alfworld.scripted.belief import Observation as Observation
from skillwright.worlds.alfworld.scripted.belief import class_of as class_of
from skillwright.worlds.alfworld.scripted.belief import hear as hear
from skillwright.worlds.alfworld.scripted.belief import read_conversation as read_conversation
from skillwright.worlds.alfworld.scripted.belief import room_of as room_of
