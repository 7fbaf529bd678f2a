import { columns, headLines, proofLines, type Report, type ReportRow, sections } from './report.js'

/*
 * A report as one file: no scripts, no links to anything else, and a style that prints. Every text is escaped.
 */

const style = `
:root { color-scheme: light; }
body { font: 13px/1.45 system-ui, sans-serif; color: #111; background: #fff; margin: 32px auto; max-width: 1100px; padding: 0 24px; }
h1 { font-size: 22px; } h2 { font-size: 16px; margin: 28px 0 8px; break-after: avoid; }
table { border-collapse: collapse; width: 100%; } thead { display: table-header-group; }
th, td { text-align: left; vertical-align: top; padding: 4px 8px; border-bottom: 1px solid #ccc; overflow-wrap: anywhere; }
th { border-bottom: 2px solid #444; } tr { break-inside: avoid; } .time { white-space: nowrap; } .bad { font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; } dt { color: #555; } dd { margin: 0; overflow-wrap: anywhere; }
@page { margin: 14mm; } @media print { body { margin: 0; max-width: none; padding: 0; font-size: 10px; } }
`

/** Yields the pieces of the file. */
export function* htmlOf(report: Report): Generator<string> {
  yield `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Audit report ${escaped(report.head.server)}</title><style>${style}</style></head><body>
<h1>Audit report</h1>
${list(headLines(report))}`
  for (const { key, title } of sections) {
    const rows = report.rows[key]
    yield `<h2>${title} (${rows.length})</h2>\n`
    if (rows.length === 0) yield '<p>None in this period.</p>\n'
    else {
      yield `<table><thead><tr>${columns.map(name => `<th>${name}</th>`).join('')}</tr></thead><tbody>\n`
      for (const row of rows) yield rowOf(row)
      yield '</tbody></table>\n'
    }
  }
  yield `<h2>Proof of the log</h2>\n${list(proofLines(report.proof))}</body></html>\n`
}

function rowOf([at, project, who, what, result, more]: ReportRow): string {
  const time = `<td class="time"><time datetime="${escaped(at)}">${escaped(`${at.slice(0, 19).replace('T', ' ')} UTC`)}</time></td>`
  const mark = /failed|reverted/.test(result) ? ' class="bad"' : ''
  const cells = [project, who, what].map(text => `<td>${escaped(text)}</td>`).join('')
  return `<tr>${time}${cells}<td${mark}>${escaped(result)}</td><td>${escaped(more)}</td></tr>\n`
}

function list(pairs: ReadonlyArray<readonly [name: string, value: string]>): string {
  return `<dl>${pairs.map(([name, value]) => `<dt>${escaped(name)}</dt><dd>${escaped(value)}</dd>`).join('')}</dl>\n`
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;'
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, found => entities[found] as string)
}
