import t from 'tap'
import type { LogSearchQuery } from '../../../www/server/log-calls.js'
import { MergedSearch } from '../../../www/state/merged-search.js'

const sought = { q: 'error', isRegex: false, ignoresCase: true }
const at = (second: number): string => new Date(1e12 + second * 1000).toISOString()
const hit = (offset: number, text: string, before: string[] = []): string =>
  `event: hit\ndata: ${JSON.stringify({ offset, text, before, after: [] })}\n\n`
const done = 'event: done\ndata: {}\n\n'

/** A server whose searches answer with these streams. */
const callsOf = (streams: Record<string, string>) => ({
  asked: [] as Array<{ id: string; query: LogSearchQuery }>,
  async search(id: string, query: LogSearchQuery) {
    this.asked.push({ id, query })
    return new Response(streams[id])
  }
})

t.test('hits of several files stand in the order of their times; those without one at the end', async t => {
  const calls = callsOf({
    one: hit(10, `${at(1)} error a1`) + hit(20, `${at(4)} error a4`) + hit(30, 'error of no time') + done,
    two: ':progress 5/10\n\n' + hit(5, `${at(2)} error b2`) + hit(9, '  at error', [`${at(3)} b3`]) + done
  })
  const search = new MergedSearch(sought, ['one.log', 'two.log'])
  t.equal(search.state, 'running')
  await search.run(calls, ['one', 'two'])
  t.same(search.hits.map(({ source, offset }) => [source, offset]), [[0, 10], [1, 5], [1, 9], [0, 20], [0, 30]])
  t.same(search.hits.map(({ timeMs }) => timeMs), [1e12 + 1000, 1e12 + 2000, 1e12 + 3000, 1e12 + 4000, null])
  t.equal(search.state, 'done')
  t.match(calls.asked, [{ id: 'one', query: sought }, { id: 'two', query: sought }])
})

t.test('what stands in the way in one file is said with its name; the hits of the others stay', async t => {
  const refused = `event: error\ndata: ${JSON.stringify({ message: 'The file is gone' })}\n\n`
  const search = new MergedSearch(sought, ['one.log', 'two.log'])
  await search.run(callsOf({ one: refused, two: hit(5, `${at(2)} error`) + done }), ['one', 'two'])
  t.equal(search.state, 'failed')
  t.equal(search.problem, 'one.log: The file is gone')
  t.equal(search.hits.length, 1)
})

t.test('it can be stopped', async t => {
  const search = new MergedSearch(sought, ['one.log', 'two.log'])
  const over = search.run({ search: (_id, _query, signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))) }, ['one', 'two'])
  search.cancel()
  await over
  t.equal(search.state, 'cancelled')
})
