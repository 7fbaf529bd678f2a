import t from 'tap'
import { FilteredLog } from '../../../../www/elements/logs/level-filter.js'
import { Announcer, type LogLine, type LogText } from '../../../../www/state/held-lines.js'

/** A log of which lines come and go at both ends. */
class EndsLog extends Announcer implements LogText {
  epoch = 0
  isAtEnd = true
  arrivedLines = 0
  firstNumber = 0
  head: LogText['head'] = 'start'
  lines: LogLine[] = []
  reached = 0
  sought: number | null = null

  append(...texts: readonly string[]): void {
    this.lines = [...this.lines, ...texts.map(text => ({ at: '', text }))]
    this.announce()
  }

  prepend(...texts: string[]): void {
    this.lines.unshift(...texts.map(text => ({ at: '', text })))
    this.firstNumber -= texts.length
    this.announce()
  }

  trim(count: number): void {
    this.lines.splice(0, count)
    this.firstNumber += count
    this.announce()
  }

  replaceLast(text: string): void {
    this.lines.splice(-1, 1, { at: '', text })
    this.announce()
  }

  begin(...texts: string[]): void {
    this.epoch++
    this.firstNumber = 0
    this.lines = []
    this.append(...texts)
  }

  reach(): void {
    this.reached++
  }

  async seek(): Promise<number | null> {
    return this.sought
  }
}

const settled = () => new Promise(resolve => setTimeout(resolve))
const shown = (log: LogText): string => log.lines.map(({ text }) => text.split(' ').at(-1)).join(' ')

function stage(...texts: string[]) {
  const text = new EndsLog()
  text.append(...texts)
  const log = new FilteredLog({ text, least: 'warn', signal: new AbortController().signal })
  return { text, log }
}

t.test('shows lines of the level or a worse one, with their continuation lines', async t => {
  const { log } = stage('  at before', 'INFO a', 'ERROR b', '  at c', 'INFO d', '  at e', 'WARN f')
  t.equal(shown(log), 'b c f')
})

t.test('follows the log when lines are added or removed at both ends or another part is loaded', async t => {
  const { text, log } = stage('INFO a', 'ERROR b', 'WARN c')
  const numberOf = (words: string): number => log.firstNumber + log.lines.findIndex(line => line.text.endsWith(words))
  const number = numberOf('c')
  text.append('INFO d', 'ERROR e')
  await settled()
  t.equal(shown(log), 'b c e')
  t.equal(log.arrivedLines, 1)
  text.prepend('ERROR y', 'INFO z')
  await settled()
  t.equal(shown(log), 'y b c e')
  t.equal(numberOf('c'), number, 'a line keeps its number')
  text.trim(4)
  await settled()
  t.equal(shown(log), 'c e')
  t.equal(numberOf('c'), number)
  text.replaceLast('INFO e')
  await settled()
  t.equal(shown(log), 'c', 'the last line was unfinished')
  const { epoch } = log
  text.begin('ERROR p', 'INFO q')
  await settled()
  t.equal(shown(log), 'p')
  t.not(log.epoch, epoch)
})

t.test('converts line numbers between the log and the filtered view', async t => {
  const { text, log } = stage('INFO a', 'ERROR b', 'INFO c', 'INFO d', 'WARN e', 'INFO f')
  t.equal(log.lines[log.numberOf(2) - log.firstNumber]?.text, 'WARN e')
  t.equal(log.originOf(log.numberOf(1)), 1)
  t.equal(log.originOf(log.numberOf(5)), 4, 'after the last one: the last one')
  text.sought = 3
  t.equal(await log.seek(1), log.numberOf(4))
  text.sought = null
  t.equal(await log.seek(1), null)
})

t.test('loads more lines if few match, up to a limit', async t => {
  const { text, log } = stage('INFO a')
  text.head = 'more'
  text.append('INFO b')
  await settled()
  t.equal(text.reached, 1)
  for (let part = 0; part < 70; part++) text.append(...Array.from({ length: 1000 }, () => 'INFO c'))
  await settled()
  t.equal(text.reached, 1)
  t.equal(shown(log), '')
})

t.test('keeps a level for each of several merged logs', async t => {
  const text = new EndsLog()
  text.lines = [
    ['ERROR a', 0],
    ['INFO b', 1],
    ['  at c', 0],
    ['  at d', 1]
  ].map(([words, source]) => ({ at: '', text: String(words), source: Number(source) }))
  t.equal(shown(new FilteredLog({ text, least: 'error', signal: new AbortController().signal })), 'a c')
})
