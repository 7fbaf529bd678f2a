import t from 'tap'
import { csvLine } from '../../../lib/cli/terminal/csv.js'

t.test('a line has quoted cells where RFC 4180 requires it, and no formulas', t => {
  const rows: Array<[cells: string[], line: string]> = [
    [['a', '', 'b c'], 'a,,b c\r\n'],
    [['a,b', 'say "x"', 'two\nlines', 'cr\r'], '"a,b","say ""x""","two\nlines","cr\r"\r\n'],
    [['=1+1', '+1', '-1', '@x', '\t=1'], "'=1+1,'+1,'-1,'@x,'\t=1\r\n"],
    [['=HYPERLINK("http://x","y")'], '"\'=HYPERLINK(""http://x"",""y"")"\r\n'],
    [['1=1', '2026-11-29T12:00:00.000Z'], '1=1,2026-11-29T12:00:00.000Z\r\n']
  ]
  for (const [cells, line] of rows) t.equal(csvLine(cells), line)
  t.end()
})
