import t from 'tap'
import type { LogApi, LogEvent } from '../../../lib/cli/log/log-api.js'
import { followLog } from '../../../lib/cli/log/log-follow.js'

type Told = LogEvent | 'broken'

/** What is printed of a stream that tells this, of files that have these lines, each of two bytes. */
async function followed(told: readonly Told[], bytes = 'a\nb\nc\nd\ne\nf\n'): Promise<string[]> {
  const said: string[] = []
  const api: Pick<LogApi, 'follow' | 'lines'> = {
    async *follow(_id, { onBroken }) {
      for (const event of told) {
        if (event === 'broken') onBroken()
        else yield event
      }
    },
    async *lines(_id, { from, to }) {
      yield bytes.slice(from, to).split('\n').slice(0, -1)
    }
  }
  await followLog({
    api: api as LogApi,
    id: 's1',
    signal: new AbortController().signal,
    onBegin: async offset => void said.push(`past ${offset}`),
    onLines: async lines => void said.push(...lines),
    onNote: words => said.push(`(${words.split(/[:,]/)[0]})`)
  })
  return said
}

const snapshot = (offset: number, file = '1', lines: string[] = []): LogEvent => ({
  event: 'snapshot',
  place: { offset, file },
  lines,
  binary: false
})
const lines = (offset: number, ...words: string[]): LogEvent => ({
  event: 'lines',
  place: { offset, file: '1' },
  lines: words
})

t.test('reports new lines only; earlier lines are read by the caller', async t => {
  t.same(await followed([snapshot(4), lines(6, 'c'), lines(8, 'd')]), ['past 4', 'c', 'd'])
})

t.test('after a broken connection, exactly the missed lines are read', async t => {
  t.same(await followed([snapshot(2), lines(4, 'b'), 'broken', snapshot(8), lines(10, 'e')]), [
    'past 2',
    'b',
    '(the connection was lost)',
    'c',
    'd',
    'e'
  ])
  t.same(await followed([snapshot(2), 'broken', snapshot(2)]), ['past 2', '(the connection was lost)'])
})

t.test('reports a rotated file and reads it from its start', async t => {
  const note = '(the file was rotated meanwhile)'
  t.same(await followed([snapshot(8), 'broken', snapshot(4, '2')]), [
    'past 8',
    '(the connection was lost)',
    note,
    'a',
    'b'
  ])
  t.same(
    await followed([snapshot(8), 'broken', snapshot(2)]),
    ['past 8', '(the connection was lost)', note, 'a'],
    'truncated'
  )
})

t.test('a reported rotation is followed by the lines of the new file', async t => {
  t.same(
    await followed([
      snapshot(4),
      { event: 'rotated' },
      snapshot(2, '2', ['new']),
      { event: 'gap', bytes: 7 },
      { event: 'gap', bytes: 0 }
    ]),
    ['past 4', '(the file was rotated)', 'new', '(at least 7 bytes were lost here)', '(lines may have been lost here)']
  )
})

t.test('a missing file has no earlier lines and is read from its start when it appears', async t => {
  const missing: LogEvent = { event: 'error', message: 'It does not exist' }
  t.same(await followed([missing, snapshot(4)]), ['(It does not exist)', 'past 0', 'a', 'b'])
})
