import t from 'tap'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { noteServerDate, serverNow } from '../../../www/state/server-clock.js'

const hourMs = 3_600_000
const differenceMs = (): number => serverNow() - Date.now()
const dateIn = (ms: number): string => new Date(Date.now() + ms).toUTCString()

t.test('follows the Date of the server, and no noise of it', async t => {
  noteServerDate(dateIn(0), Date.now())
  t.equal(differenceMs(), 0, 'a small difference is none')
  noteServerDate(dateIn(-3 * hourMs), Date.now())
  t.ok(Math.abs(differenceMs() + 3 * hourMs) <= 2000, 'the browser is three hours ahead')
  const before = differenceMs()
  for (const [date, sentAtMs] of [
    [null, Date.now()],
    ['nonsense', Date.now()],
    [dateIn(hourMs), Date.now() - 60_000],
    [dateIn(hourMs), Date.now() + 60_000],
    [dateIn(-3 * hourMs), Date.now()]
  ] as const) {
    noteServerDate(date, sentAtMs)
    t.ok(Math.abs(differenceMs() - before) < 100, `${date} changes nothing`)
  }
  noteServerDate(dateIn(0), Date.now())
  t.equal(differenceMs(), 0, 'the clock of the browser was set')
})

/** Files that measure by the clock of the browser, each with the reason. */
const own: Readonly<Record<string, string>> = {
  'archive/zip.ts': 'times of files of this machine',
  'pages/deployment.ts': 'a pause between requests',
  'pages/login.ts': 'a wait that begins here',
  'server/client.ts': 'the way of an answer',
  'server/plan-calls.ts': 'says the clock of this machine to the server',
  'server/terminal.ts': 'a silence',
  'state/server-clock.ts': 'measures the difference'
}

t.test('everything else of the panel asks the clock of the server', async t => {
  const sources = fileURLToPath(new URL('../../../../www/', import.meta.url))
  const files = readdirSync(sources, { recursive: true, encoding: 'utf8' }).filter(path => path.endsWith('.ts'))
  const found = files.filter(path => /\bDate\.now\b|new Date\(\)/.test(readFileSync(join(sources, path), 'utf8')))
  t.strictSame(found.map(path => path.replaceAll('\\', '/')).sort(), Object.keys(own).sort())
})
