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

t.test('sorts hits of several files newest first, those without a time last', async t => {
  const calls = callsOf({
    one: hit(30, 'error of no time') + hit(20, `${at(4)} error a4`) + hit(10, `${at(1)} error a1`) + done,
    two: `:progress 5/10\n\n${hit(9, '  at error', [`${at(3)} b3`])}${hit(5, `${at(2)} error b2`)}${done}`
  })
  const search = new MergedSearch(sought, ['one.log', 'two.log'])
  t.equal(search.state, 'running')
  await search.run(calls, ['one', 'two'])
  t.same(
    search.hits.map(({ source, offset }) => [source, offset]),
    [
      [0, 20],
      [1, 9],
      [1, 5],
      [0, 10],
      [0, 30]
    ]
  )
  t.same(
    search.hits.map(({ timeMs }) => timeMs),
    [1e12 + 4000, 1e12 + 3000, 1e12 + 2000, 1e12 + 1000, null]
  )
  t.equal(search.state, 'done')
  t.match(calls.asked, [
    { id: 'one', query: sought },
    { id: 'two', query: sought }
  ])
})

t.test('reports the error of a file with its name, and keeps the hits of the others', async t => {
  const refused = `event: error\ndata: ${JSON.stringify({ message: 'The file is gone' })}\n\n`
  const search = new MergedSearch(sought, ['one.log', 'two.log'])
  await search.run(callsOf({ one: refused, two: hit(5, `${at(2)} error`) + done }), ['one', 'two'])
  t.equal(search.state, 'failed')
  t.equal(search.problem, 'one.log: The file is gone')
  t.equal(search.hits.length, 1)
})

t.test('loads older hits of the other files if one cannot be searched', async t => {
  const refused = `event: error\ndata: ${JSON.stringify({ message: 'No times' })}\n\n`
  const search = new MergedSearch(sought, ['one.log', 'two.log'])
  const cut = `event: truncated\ndata: {"maxHits":1}\n\n${done}`
  await search.run(callsOf({ one: refused, two: hit(5, `${at(2)} error`) + cut }), ['one', 'two'])
  t.equal(search.state, 'cut')
  t.equal(search.problem, 'one.log: No times')
})

t.test('can be cancelled', async t => {
  const search = new MergedSearch(sought, ['one.log', 'two.log'])
  const over = search.run(
    {
      search: (_id, _query, signal) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    },
    ['one', 'two']
  )
  search.cancel()
  await over
  t.equal(search.state, 'cancelled')
})

t.test('loads older hits on request, and shows no file further back than the others', async t => {
  const cut = `event: truncated\ndata: {"maxHits":2}\n\n${done}`
  const pages: Record<string, string[]> = {
    one: [hit(90, `${at(9)} error a9`) + hit(80, `${at(8)} error a8`) + cut, hit(30, `${at(3)} error a3`) + done],
    two: [hit(70, `${at(7)} error b7`) + hit(20, `${at(2)} error b2`) + cut, hit(10, `${at(1)} error b1`) + done]
  }
  const asked: Array<[string, unknown]> = []
  const search = new MergedSearch({ ...sought, level: 'error' }, ['one.log', 'two.log'])
  const shown = (): string => search.hits.map(({ text }) => text.split(' ').at(-1)).join(' ')
  await search.run(
    {
      search: async (id, query) => {
        asked.push([id, query.toOffset])
        t.equal(query.level, 'error')
        return new Response(pages[id]?.shift())
      }
    },
    ['one', 'two']
  )
  t.equal(search.state, 'cut')
  t.equal(shown(), 'a9 a8', 'what lies before the oldest hit of the first is not known yet')
  const ended = async (): Promise<void> => {
    search.older()
    while (search.state === 'running')
      await new Promise(resolve => search.addEventListener('change', resolve, { once: true }))
  }
  await ended()
  t.equal(shown(), 'a9 a8 b7 a3 b2')
  await ended()
  t.equal(shown(), 'a9 a8 b7 a3 b2 b1')
  t.equal(search.state, 'done')
  t.same(asked, [
    ['one', null],
    ['two', null],
    ['one', 80],
    ['two', 20]
  ])
})

t.test('searches two files at a time', async t => {
  const names = Array.from({ length: 7 }, (_, index) => `${index}.log`)
  let running = 0
  let most = 0
  const search = new MergedSearch(sought, names)
  await search.run(
    {
      search: async () => {
        most = Math.max(most, ++running)
        await new Promise(resolve => setTimeout(resolve, 1))
        running--
        return new Response(done)
      }
    },
    names
  )
  t.equal(most, 2)
  t.equal(search.state, 'done')
})
