"""How the page of a run looks: dark on a screen, dark on light on paper, one column where it is narrow."""

from __future__ import annotations

from pufferlib.reports.palette import BACKGROUND, CYAN, GRID, MUTED, RED, SURFACE, WHITE

STYLE = f"""
:root {{ color-scheme: dark }}
* {{ box-sizing: border-box }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: {WHITE}; background: {BACKGROUND};
  max-width: 1240px; margin: 0 auto; padding: 1.5rem clamp(1rem, 3vw, 2.5rem) 3rem }}
header {{ border-bottom: 3px solid {RED}; padding-bottom: .5rem; display: flex; flex-wrap: wrap; gap: 0 1.25rem;
  align-items: baseline }}
h1 {{ font-size: 1.9rem; margin: 0; color: {CYAN}; overflow-wrap: anywhere }}
h2 {{ font-size: 1.15rem; font-weight: 600; margin: 2rem 0 .75rem; color: {CYAN} }}
h3 {{ font-size: .9rem; margin: .25rem 0; color: {CYAN}; font-weight: 600 }}
.id {{ margin: 0; color: {MUTED}; overflow-wrap: anywhere }}
.note {{ color: {MUTED}; border-left: 3px solid {GRID}; padding-left: .75rem }}
.facts {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: .75rem;
  margin: 1.25rem 0 0 }}
.facts div {{ background: {SURFACE}; border-radius: 6px; padding: .6rem .8rem }}
dt {{ color: {MUTED}; font-size: .8rem }} dd {{ margin: 0; font-size: 1.1rem; font-variant-numeric: tabular-nums }}
.beside {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 380px), 1fr)); gap: 0 2rem }}
video, .beside img {{ width: 100%; max-height: 70vh; object-fit: contain; background: {SURFACE}; border-radius: 6px }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 360px), 1fr)); gap: .75rem }}
figure {{ margin: 0; background: {SURFACE}; border-radius: 6px; padding: .5rem; break-inside: avoid }}
figure svg {{ display: block; width: 100%; height: auto }}
figure text {{ font-family: system-ui, sans-serif !important }}
.table {{ overflow-x: auto }}
table {{ border-collapse: collapse; font-size: .88rem; width: 100%; font-variant-numeric: tabular-nums }}
th, td {{ padding: .28rem .6rem .28rem 0; text-align: right; border-bottom: 1px solid {GRID}; white-space: nowrap }}
th {{ color: {MUTED}; font-weight: 500 }}
th.text, td.text {{ text-align: left; white-space: normal; overflow-wrap: anywhere }}
td.text + td.text {{ text-align: right }}
.columns {{ columns: 320px 3; column-gap: 2rem }}
.columns .table {{ overflow: visible }}  /* what scrolls is never broken into columns */
.settings {{ margin-bottom: 1.25rem }} .settings table {{ font-size: .82rem }} tr {{ break-inside: avoid }}
pre {{ background: {SURFACE}; border-radius: 6px; padding: .5rem .8rem; margin: .4rem 0; white-space: pre-wrap;
  overflow-wrap: anywhere; font-size: .85rem }}
@media print {{
  :root {{ color-scheme: light; font-size: 11px }}
  body {{ color: {BACKGROUND}; background: none; font-size: 1rem; max-width: none; padding: 0 }}
  h1, h2, h3 {{ color: #006868; break-after: avoid }} .id, dt, th, .note {{ color: #445F5F }}
  .facts div, pre {{ background: none; border: 1px solid #C8D8D8 }} th, td {{ border-color: #C8D8D8 }}
  figure {{ print-color-adjust: exact; -webkit-print-color-adjust: exact }}
  .plots {{ grid-template-columns: repeat(3, 1fr) }}
  .columns {{ columns: 3 }} video {{ display: none }}
}}
"""
