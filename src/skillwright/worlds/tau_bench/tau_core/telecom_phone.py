"""The phone of a customer of the telecom domain, with the tools that its user calls.

Source: tau2-bench (arXiv:2506.07982), the user's tools of its telecom domain.
"""

import json
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from skillwright.core import DataError
from skillwright.worlds.tau_bench.tau_core.database import Database, freeze
from skillwright.worlds.tau_bench.tau_core.domain import Record, Tool

PHONE: Final = "phone"

WORDS: Final = freeze(
    json.loads(Path(__file__).with_name("telecom.json").read_text(encoding="utf-8"))
)
"""Texts of the phone, new bills, and a phone's state with each key that data may leave out."""

_MODES: Final = ("4g_5g_preferred", "4g_only", "3g_only", "2g_only")
_SPEEDS: Final = {"2G": (0.1, 0.4), "3G": (1.0, 5.0), "4G": (10.0, 100.0), "5G": (50.0, 500.0)}
_SIGNAL_SHARE: Final = {"poor": 0.2, "fair": 0.5, "good": 0.8, "excellent": 1.0}
_GRADES: Final = ((1, "Very Poor"), (5, "Poor"), (25, "Fair"), (100, "Good"))
_NETWORK: Final = (
    "network_connection_status",
    "network_technology_connected",
    "network_signal_strength",
)
_SWITCHED: Final = (("on", True), ("off", False))
_NO_WIFI: Final = {"wifi_connected": False, "wifi_ssid": None, "wifi_signal_strength": "none"}


class APNNames(Enum):
    """The access points that there are."""

    INTERNET = "internet"
    BROKEN = "broken"


class APNSettings(BaseModel):
    """Settings of the access point; the names are in the original's refusals."""

    apn_name: APNNames = APNNames.INTERNET
    reset_at_reboot: bool = False
    mms_apn: str | None = "mms"
    mmsc_url: str | None = "http://mms.carrier.com/mms/wapenc"
    mms_proxy: str | None = None
    mms_port: int | None = None


def check_phone(phone: Mapping[str, Record]) -> None:
    """Refuse a phone that lacks a key, or has one of another type."""
    for part, wanted in WORDS["fresh"].items():
        given = phone.get(part, {})
        if lacking := sorted(wanted.keys() - given.keys()):
            raise DataError(f"{PHONE}.json: {part!r} lacks {', '.join(lacking)}")
        for name, usual in wanted.items():
            kind = dict if isinstance(usual, dict) else type(usual)
            if usual is not None and not isinstance(given[name], kind):
                raise DataError(
                    f"{PHONE}.json: {part!r}: {name} is {given[name]!r}; it is such as {usual!r}"
                )
    device = phone["device"]
    if lacking := sorted(APNSettings.model_fields.keys() - device["active_apn_settings"].keys()):
        raise DataError(f"{PHONE}.json: active_apn_settings lacks {', '.join(lacking)}")
    for name, app in device["app_statuses"].items():
        if not {"sms", "storage"} <= app.get("permissions", {}).keys():
            raise DataError(f"{PHONE}.json: the app {name!r} lacks permissions sms and storage")


def _device(db: Database) -> Record:
    return db.find(PHONE, "device") or {}


def surroundings(db: Database) -> Record:
    """Return where the phone is, and what the carrier lets it do."""
    return db.find(PHONE, "surroundings") or {}


def set_surroundings(db: Database, **changes: Any) -> str:
    """Change where the phone is, or what the carrier lets it do."""
    return db.put(PHONE, "surroundings", {**surroundings(db), **freeze(changes)})


def _set(db: Database, **changes: Any) -> str:
    return db.put(PHONE, "device", {**_device(db), **freeze(changes)})


def _sim_status(db: Database) -> str:
    device = _device(db)
    return "missing" if device["sim_card_missing"] else str(device["sim_card_status"])


def _search_network(db: Database) -> str:
    """Connect to the network that the SIM card, the settings and the line allow."""
    device, around = _device(db), surroundings(db)
    is_cut_off = (
        _sim_status(db) != "active"
        or device["airplane_mode"]
        or device["active_apn_settings"]["apn_name"] == "broken"
        or not around["line_active"]
    )
    if is_cut_off:
        return _set(db, **dict(zip(_NETWORK, ("no_service", "none", "none"), strict=True)))
    signals, mode = around["signal_strength"], device["network_mode_preference"]
    technology = {"3g_only": "3G", "2g_only": "2G"}.get(mode, "4G")
    if mode == _MODES[0] and signals.get("5G", "none") != "none":
        technology = "5G"
    found = ("connected", technology, signals.get(technology, "none"))
    return _set(db, **dict(zip(_NETWORK, found, strict=True)))


def _status_bar(db: Database) -> str:
    device = _device(db)
    technology = device["network_technology_connected"]
    if device["airplane_mode"]:
        shown = ["✈️ Airplane Mode"]
    else:
        shown = [WORDS["words"]["bars"][device["network_signal_strength"]]]
        shown += [technology] if technology != "none" else []
        has_data = device["data_enabled"] and technology != "none"
        shown.append("📱 Data Enabled" if has_data else "📵 Data Disabled")
        shown += ["🔽 Data Saver"] if has_data and device["data_saver_mode"] else []
    if device["wifi_enabled"] and device["wifi_connected"]:
        ssid = device["wifi_ssid"]
        shown.append(f"📡 Connected to {ssid}" if ssid else "📡 Enabled")
    shown += ["🔒 VPN Connected"] if device["vpn_connected"] else []
    return " | ".join([*shown, f"🔋 {device['battery_level']}%"])


def _with_bar(db: Database, said: str) -> str:
    return f"{said}\nStatus Bar: {_status_bar(db)}"


def _has_data(db: Database) -> bool:
    """Tell whether mobile data works."""
    device, around = _device(db), surroundings(db)
    may_roam = device["roaming_enabled"] and around["roaming_allowed"]
    return not (
        device["airplane_mode"]
        or device["network_signal_strength"] == "none"
        or device["network_connection_status"] == "no_service"
        or (around["is_abroad"] and not may_roam)
        or not device["data_enabled"]
        or around["mobile_data_usage_exceeded"]
    )


def _speed(db: Database) -> tuple[float | None, str]:
    """Return the download speed in Mbps, or ``None``, and a word for it."""
    if not _has_data(db):
        return None, "No Connection"
    device = _device(db)
    details = device["vpn_details"] if device["vpn_connected"] else None
    factor = 0.1 if details and details["server_performance"] == "poor" else 1.0
    factor *= 0.2 if device["data_saver_mode"] else 1
    low, high = _SPEEDS.get(device["network_technology_connected"], (0.0, 0.0))
    share = _SIGNAL_SHARE.get(device["network_signal_strength"], 0.0)
    speed = round((low + high) / 2.0 * share * factor, 2)
    return speed, next((word for most, word in _GRADES if speed < most), "Excellent")


def _can_send_mms(db: Database) -> bool:
    device = _device(db)
    app = device["app_statuses"].get("messaging")
    return bool(
        _has_data(db)
        and device["network_technology_connected"] != "2G"
        and not (device["wifi_calling_enabled"] and device["wifi_calling_mms_over_wifi"])
        and device["active_apn_settings"]["mmsc_url"] is not None
        and app is not None
        and app["permissions"]["storage"]
        and app["permissions"]["sms"]
    )


def _on(value: Any) -> str:
    return "ON" if value else "OFF"


def _check_network_status(db: Database) -> str:
    device, yes = _device(db), {True: "Yes", False: "No"}
    network = [f"Connected Wi-Fi Network: {device['wifi_ssid']}"] * bool(device["wifi_connected"])
    return "\n".join(
        [
            f"Airplane Mode: {_on(device['airplane_mode'])}",
            f"SIM Card Status: {_sim_status(db)}",
            f"Cellular Connection: {device['network_connection_status']}",
            f"Cellular Signal: {device['network_signal_strength']}",
            f"Cellular Network Type: {device['network_technology_connected']}",
            f"Mobile Data Enabled: {yes[device['data_enabled']]}",
            f"Data Roaming Enabled: {yes[device['roaming_enabled']]}",
            f"Wi-Fi Radio: {_on(device['wifi_enabled'])}",
            f"Wi-Fi Connected: {yes[device['wifi_connected']]}",
            *network,
        ]
    )


def _run_speed_test(db: Database) -> str:
    speed, word = _speed(db)
    if speed is None:
        return f"Speed test failed: {word}."
    return f"Speed Test Result: {speed:.2f} Mbps ({word}). {WORDS['words']['advice'][word]}"


def _check_data_restriction_status(db: Database) -> str:
    is_on = _device(db)["data_saver_mode"]
    return f"Data Saver mode is {'ON (limits data usage)' if is_on else 'OFF'}."


def _check_apn_settings(db: Database) -> str:
    apn = _device(db)["active_apn_settings"]
    return (
        f"Current APN Name: {apn['apn_name'] or 'Not Set'}\n"
        f"MMSC URL (for picture messages): {apn['mmsc_url'] or 'Not Set'}\n"
        "(These are technical settings, usually best left unchanged.)"
    )


def _check_wifi_status(db: Database) -> str:
    device = _device(db)
    if not device["wifi_enabled"]:
        return "Wi-Fi is turned OFF."
    if not device["wifi_connected"]:
        return "Wi-Fi is ON but not connected to any network."
    network, signal = device["wifi_ssid"], device["wifi_signal_strength"]
    return f"Wi-Fi is ON and connected to '{network}'. Signal strength: {signal}."


def _check_vpn_status(db: Database) -> str:
    device = _device(db)
    if not device["vpn_connected"]:
        is_set = device["vpn_enabled_setting"]
        return (
            f"VPN is turned {'ON in settings, but currently not connected' if is_set else 'OFF'}."
        )
    if not device["vpn_details"]:
        return "VPN is ON and connected (no specific details available)."
    level = device["vpn_details"]["server_performance"]
    shown = {**device["vpn_details"], "server_performance": "?"}
    text = str(shown).replace("'?'", f"<PerformanceLevel.{level.upper()}: {level!r}>")
    return f"VPN is ON and connected. Details: {text}"


def _app(db: Database, app_name: Any) -> Record | None:
    found: Record | None = _device(db)["app_statuses"].get(app_name)
    return found


def _allowed(app: Record) -> list[str]:
    return [name.replace("_", " ").lower() for name, may in app["permissions"].items() if may]


def _check_app_status(db: Database, app_name: Any) -> str:
    app = _app(db, app_name)
    if app is None:
        return f"App '{app_name}' not found on this phone."
    allowed = [f"   - {name}" for name in _allowed(app)]
    head = " - Permissions Granted:" if allowed else " - Permissions: None granted."
    return "\n".join([f"Status for App: {app_name}", head, *allowed])


def _check_app_permissions(db: Database, app_name: Any) -> str:
    app = _app(db, app_name)
    if app is None:
        return f"App '{app_name}' not found on this phone."
    if allowed := _allowed(app):
        return f"App '{app_name}' has permission for: {', '.join(allowed)}."
    return f"App '{app_name}' currently has no permissions granted."


def _check_payment_request(db: Database) -> str:
    asked = surroundings(db)["payment_request"]
    if asked is None:
        return "No payment request has been made."
    return f"You have a payment request for bill {asked['bill_id']} of {asked['amount_due']} USD."


# The tools that change something.


def _set_network_mode_preference(db: Database, mode: Any) -> str:
    if mode not in _MODES:
        said = f"'{mode}' is not a valid option. Please use one of: {', '.join(_MODES)}"
        return _with_bar(db, f"Failed to set network mode: {said}")
    _set(db, network_mode_preference=mode)
    _search_network(db)
    return _with_bar(db, f"Preferred Network Mode set to: {mode}")


def _set_airplane_mode(db: Database, is_on: bool) -> None:
    device = _device(db)
    if is_on or device["wifi_enabled"]:
        _set(db, **_NO_WIFI)
    if is_on and device["vpn_connected"]:
        _set(db, vpn_connected=False, vpn_details=None)
    _set(db, airplane_mode=is_on)
    _search_network(db)


def _toggle_airplane_mode(db: Database) -> str:
    is_on = not _device(db)["airplane_mode"]
    _set_airplane_mode(db, is_on)
    return _with_bar(db, f"Airplane Mode is now {_on(is_on)}.")


def _toggle(name: str, label: str, *, search: bool = False) -> Tool:
    def tool(db: Database) -> str:
        is_on = not _device(db)[name]
        _turn(name, is_on, search=search)(db)
        return _with_bar(db, f"{label} is now {_on(is_on)}.")

    return tool


def _toggle_wifi(db: Database) -> str:
    device = _device(db)
    if device["airplane_mode"]:
        return _with_bar(db, "Cannot change Wi-Fi settings while Airplane Mode is ON.")
    is_on = not device["wifi_enabled"]
    _set(db, wifi_enabled=is_on, **({} if is_on else _NO_WIFI))
    return _with_bar(db, f"Wi-Fi is now {_on(is_on)}.")


def _reseat_sim_card(db: Database) -> str:
    _turn("sim_card_missing", False, search=True)(db)
    return _with_bar(db, "SIM card re-seated successfully.")


def _set_apn_settings(db: Database, apn_settings: Any) -> str:
    if not isinstance(apn_settings, dict):
        raise TypeError("apn_settings is not an object")
    apn = APNSettings(**apn_settings).model_dump(mode="json")
    _set_apn(**apn)(db)
    return _with_bar(db, f"APN settings set to: {apn['apn_name']}")


def _set_apn(*, search: bool = True, **changes: Any) -> Tool:
    def function(db: Database) -> str:
        _set(db, active_apn_settings={**_device(db)["active_apn_settings"], **changes})
        return _search_network(db) if search else ""

    return function


def _reset_apn_settings(db: Database) -> str:
    _set_apn(reset_at_reboot=True)(db)
    return _with_bar(db, "APN settings will reset at reboot.")


def _connect_vpn(db: Database) -> str:
    device = _device(db)
    if device["vpn_connected"]:
        return "VPN already connected."
    _set(db, vpn_connected=True, vpn_details=device["next_vpn"])
    return _with_bar(db, "VPN connected successfully.")


def _disconnect_vpn(db: Database) -> str:
    if not _device(db)["vpn_connected"]:
        return _with_bar(db, "No active VPN connection to disconnect.")
    _set(db, vpn_connected=False, vpn_details=None)
    return _with_bar(db, "VPN disconnected successfully.")


def _set_permission(db: Database, app_name: Any, permission: str, may: bool) -> None:
    apps = _device(db)["app_statuses"]
    permissions = {**apps[app_name]["permissions"], permission: may}
    _set(db, app_statuses={**apps, app_name: {**apps[app_name], "permissions": permissions}})


def _grant_app_permission(db: Database, app_name: Any, permission: Any) -> str:
    app, permission = _app(db, app_name), permission.lower()
    if app is None:
        said = f"Error. App '{app_name}' not found. Cannot grant permission."
    elif permission not in app["permissions"]:
        there = [*app["permissions"]]
        said = f"Error. Permission '{permission}' not tracked for app '{app_name}', "
        said += f"available permissions: {there}"
    else:
        _set_permission(db, app_name, permission, True)
        said = f"Success. Permission '{permission}' granted to app '{app_name}'."
    return _with_bar(db, said)


def _reboot_device(db: Database) -> str:
    said = "Restarting network services..."
    if _device(db)["active_apn_settings"]["reset_at_reboot"]:
        said = f"Resetting APN settings...\n{said}"
        _set(db, active_apn_settings=APNSettings().model_dump(mode="json"))
    _search_network(db)
    return _with_bar(db, said)


def _make_payment(db: Database) -> str:
    asked = surroundings(db)["payment_request"]
    if asked is None:
        return "You do not have a payment request."
    set_surroundings(db, payment_request={**asked, "paid": True})
    return f"Payment of {asked['amount_due']} USD has been made for bill {asked['bill_id']}."


# Functions that make a task's initial state, and assertions about a final one.


def _turn(name: str, value: bool, *, search: bool = False) -> Tool:
    def function(db: Database) -> str:
        _set(db, **{name: value})
        return _search_network(db) if search else ""

    return function


def _turn_airplane_mode(is_on: bool) -> Callable[[Database], None]:
    def function(db: Database) -> None:
        _set_airplane_mode(db, not is_on)  # it toggles until the mode is right
        _set_airplane_mode(db, is_on)

    return function


def _lock_sim_card(db: Database, mode: Any) -> str:
    _set(db, sim_card_status={"pin": "locked_pin", "puk": "locked_puk"}[mode])
    return _search_network(db)


def _break_vpn(db: Database) -> str:
    """Make the VPN slow, and as in the original every later one of the episode."""
    _connect_vpn(db)
    slow = {**_device(db)["vpn_details"], "server_performance": "poor"}
    return _set(db, vpn_details=slow, next_vpn=slow)


def _remove_app_permission(db: Database, app_name: Any, permission: Any) -> None:
    app = _app(db, app_name)
    if app is not None and permission.lower() in app["permissions"]:
        _set_permission(db, app_name, permission.lower(), False)


def _set_wifi_calling(db: Database, enabled: Any, mms_over_wifi: Any = None) -> None:
    over = {} if mms_over_wifi is None else {"wifi_calling_mms_over_wifi": mms_over_wifi}
    _set(db, wifi_calling_enabled=enabled, **over)


def _expects(found: Callable[[Database], Any]) -> Callable[..., bool]:
    def function(db: Database, expected_status: Any) -> bool:
        return bool(found(db) == expected_status)

    return function


def _assert_internet_speed(db: Database, expected_speed: Any, expected_desc: Any = None) -> bool:
    speed, word = _speed(db)
    is_right = expected_desc is None or word.lower() == expected_desc.lower()
    return bool((speed or 0.0) >= expected_speed and is_right)


PHONE_TOOLS: Final[Mapping[str, Tool]] = {
    "can_send_mms": lambda db: (
        f"Your messaging app {'can' if _can_send_mms(db) else 'cannot'} send MMS messages."
    ),
    "check_apn_settings": _check_apn_settings,
    "check_app_permissions": _check_app_permissions,
    "check_app_status": _check_app_status,
    "check_data_restriction_status": _check_data_restriction_status,
    "check_installed_apps": lambda db: (
        f"The following apps are installed on the phone: {', '.join(_device(db)['app_statuses'])}"
    ),
    "check_network_mode_preference": lambda db: (
        f"Network Mode Preference: {_device(db)['network_mode_preference']}"
    ),
    "check_network_status": _check_network_status,
    "check_payment_request": _check_payment_request,
    "check_sim_status": lambda db: str(WORDS["words"]["sim"][_sim_status(db)]),
    "check_status_bar": lambda db: f"Status Bar: {_status_bar(db)}",
    "check_vpn_status": _check_vpn_status,
    "check_wifi_calling_status": lambda db: (
        f"Wi-Fi Calling is currently turned {_on(_device(db)['wifi_calling_enabled'])}."
    ),
    "check_wifi_status": _check_wifi_status,
    "connect_vpn": _connect_vpn,
    "disconnect_vpn": _disconnect_vpn,
    "grant_app_permission": _grant_app_permission,
    "make_payment": _make_payment,
    "reboot_device": _reboot_device,
    "reseat_sim_card": _reseat_sim_card,
    "reset_apn_settings": _reset_apn_settings,
    "run_speed_test": _run_speed_test,
    "set_apn_settings": _set_apn_settings,
    "set_network_mode_preference": _set_network_mode_preference,
    "toggle_airplane_mode": _toggle_airplane_mode,
    "toggle_data": _toggle("data_enabled", "Mobile Data", search=True),
    "toggle_data_saver_mode": _toggle("data_saver_mode", "Data Saver Mode"),
    "toggle_roaming": _toggle("roaming_enabled", "Data Roaming", search=True),
    "toggle_wifi": _toggle_wifi,
    "toggle_wifi_calling": _toggle("wifi_calling_enabled", "Wi-Fi Calling"),
}

PHONE_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "set_user_info": set_surroundings,
    "set_user_location": lambda db, abroad: set_surroundings(db, is_abroad=abroad),
    **{f"turn_airplane_mode_{a}": _turn_airplane_mode(b) for a, b in _SWITCHED},
    "turn_data_on": _turn("data_enabled", True),
    "turn_data_off": _turn("data_enabled", False, search=True),
    **{f"turn_roaming_{a}": _turn("roaming_enabled", b, search=True) for a, b in _SWITCHED},
    **{f"turn_data_saver_mode_{a}": _turn("data_saver_mode", b) for a, b in _SWITCHED},
    "unseat_sim_card": _turn("sim_card_missing", True, search=True),
    "lock_sim_card": _lock_sim_card,
    "break_apn_settings": _set_apn(apn_name="broken"),
    "break_apn_mms_setting": _set_apn(search=False, mmsc_url=None),
    "break_vpn": _break_vpn,
    "remove_app_permission": _remove_app_permission,
    "set_wifi_calling": _set_wifi_calling,
    "simulate_network_search": _search_network,
    "assert_airplane_mode_status": _expects(lambda db: _device(db)["airplane_mode"]),
    "assert_can_send_mms": _expects(_can_send_mms),
    "assert_internet_not_excellent": lambda db: _speed(db)[1] != "Excellent",
    "assert_internet_speed": _assert_internet_speed,
    "assert_mobile_data_saver_mode_status": _expects(lambda db: _device(db)["data_saver_mode"]),
    "assert_mobile_data_status": _expects(_has_data),
    "assert_mobile_data_usage_exceeded": _expects(
        lambda db: surroundings(db)["mobile_data_usage_exceeded"]
    ),
    "assert_mobile_roaming_status": _expects(lambda db: _device(db)["roaming_enabled"]),
    "assert_service_status": _expects(lambda db: _device(db)["network_connection_status"]),
}
