import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createSearches, type SearchEvent, type SearchQuery } from '../../../../lib/operate/logs/search/search.js'
import { repetitions } from '../../../support/thorough.js'

const searchModule = new URL('../../../../lib/operate/logs/search/search.js', import.meta.url).href
const plain = {
  q: 'needle',
  isRegex: false,
  ignoresCase: false,
  maxHits: 500,
  context: 0,
  fromOffset: 0,
  toOffset: undefined
}

async function stage(t: Test, text: string | Buffer, stallMs = 60_000) {
  const path = join(t.testdir({}), 'file')
  writeFileSync(path, text)
  const handle = await open(path)
  t.teardown(() => handle.close())
  const { size } = await handle.stat()
  const contents = { handle, reach: async () => ({ size, isWhole: true }) }
  const searches = createSearches({ stallMs })
  const run = async (query: Partial<SearchQuery>, signal = new AbortController().signal, slow = async () => {}) => {
    const events: SearchEvent[] = []
    await searches.run(contents, { ...plain, ...query, signal, caller: 'somebody' }, async event => {
      if (event.event !== 'progress') events.push(event)
      await slow()
    })
    return events
  }
  const hits = async (query: Partial<SearchQuery>) =>
    (await run(query)).flatMap(event => (event.event === 'hit' ? [event.data] : []))
  return { run, hits, size }
}

t.test('finds every hit of a large file once, in order, with two threads', async t => {
  const lines = Array.from({ length: 400_000 }, (_, n) =>
    n % 1000 === 7 ? `line ${n} needle` : `line ${n} ${'x'.repeat(n % 90)}`
  )
  const text = lines.map(line => `${line}\n`).join('')
  const { run, hits, size } = await stage(t, text)
  t.ok(size > 18 * 1024 * 1024)
  const found = await hits({ context: 20 })
  t.same(
    found.map(({ text }) => text),
    lines.filter(line => line.endsWith('needle'))
  )
  for (const { offset, text: hit, before, after } of found) {
    const n = Number(hit.split(' ')[1])
    if (text.slice(offset, offset + hit.length) !== hit) t.fail(`the offset of ${hit}`)
    if (before.join() !== lines.slice(Math.max(0, n - 20), n).join()) t.fail(`before ${hit}`)
    if (after.join() !== lines.slice(n + 1, n + 21).join()) t.fail(`after ${hit}`)
  }
  t.same((await run({})).at(-1), { event: 'done', data: { scannedBytes: size } })
  const exact = await run({ maxHits: 400 })
  t.notOk(
    exact.some(({ event }) => event === 'truncated'),
    'exactly the maximum is not too many'
  )
  const cut = await run({ maxHits: 399 })
  t.match(cut.slice(-2), [
    { event: 'truncated', data: { maxHits: 399 } },
    { event: 'done', data: { scannedBytes: Number } }
  ])
  t.equal(cut.length, 401)
  const middle = found[200]!.offset
  t.equal((await hits({ fromOffset: middle })).length, 200)
  t.equal((await hits({ toOffset: middle })).length, 200)
  t.equal(
    (await hits({ fromOffset: middle + 1, toOffset: found[202]!.offset })).length,
    1,
    'only lines that begin in the range'
  )
})

t.test('finds the same hits in reverse order with the newest first, and continues from the oldest of them', async t => {
  const count = repetitions(200_000, 400_000)
  const lines = Array.from({ length: count }, (_, n) =>
    n % 1000 === 7 ? `line ${n} needle` : `line ${n} ${'x'.repeat(n % 90)}`
  )
  const { run, hits, size } = await stage(t, lines.map(line => `${line}\n`).join(''))
  const forward = await hits({ context: 3 })
  const found = await hits({ context: 3, isNewestFirst: true })
  t.equal(found.length, count / 1000)
  t.same([...found].reverse(), forward)
  t.same((await run({ isNewestFirst: true })).at(-1), { event: 'done', data: { scannedBytes: size } })
  const cut = await run({ isNewestFirst: true, maxHits: 10 })
  t.same(
    cut.slice(0, 10).map(event => event.event === 'hit' && event.data.offset),
    forward
      .slice(-10)
      .reverse()
      .map(({ offset }) => offset)
  )
  t.match(cut.slice(10), [
    { event: 'truncated', data: { maxHits: 10 } },
    { event: 'done', data: { scannedBytes: size - found[9]!.offset } }
  ])
  const older = await hits({ isNewestFirst: true, maxHits: 10, toOffset: found[9]!.offset })
  t.same(
    older.map(({ offset }) => offset),
    found.slice(10, 20).map(({ offset }) => offset),
    'no hit twice, none missing'
  )
  t.same((await hits({ isNewestFirst: true, fromOffset: found[3]!.offset })).length, 4)
})

t.test('returns the maximum number of last hits if every line is a hit', async t => {
  const { hits } = await stage(t, Array.from({ length: 300_000 }, (_, n) => `n ${n}\n`).join(''))
  const found = await hits({ q: 'n', isNewestFirst: true, maxHits: 5000 })
  t.same(
    found.map(({ text }) => text),
    Array.from({ length: 5000 }, (_, n) => `n ${299_999 - n}`)
  )
})

t.test('filters lines by level, and treats a line of a stack trace like the line it belongs to', async t => {
  const { hits } = await stage(
    t,
    [
      'needle 0',
      'INFO needle 1',
      '{"level":50,"msg":"needle 2"}',
      '    at needle 3',
      'WARN needle 4',
      '  more needle 5',
      'DEBUG needle 6',
      ''
    ].join('\n')
  )
  const numbers = async (query: Partial<SearchQuery>) =>
    (await hits(query)).map(({ text }) => /needle (\d)/.exec(text)?.[1]).join('')
  t.equal(await numbers({}), '0123456')
  t.equal(await numbers({ level: 'error' }), '23')
  t.equal(await numbers({ level: 'warn' }), '2345')
  t.equal(await numbers({ level: 'warn', isNewestFirst: true }), '5432')
  t.equal(await numbers({ level: 'warn', isNewestFirst: true, maxHits: 2 }), '54')
  t.equal(await numbers({ level: 'debug' }), '123456')
})

t.test('is as fast with a level as without one if no line has a level', async t => {
  const { hits } = await stage(t, 'a\n'.repeat(1_000_000), 500)
  t.equal((await hits({ q: 'a', level: 'error' })).length, 0)
})

t.test('searches lines longer than a block, and a file without newlines', async t => {
  const long = `${'y'.repeat(1_500_000)}needle${'y'.repeat(700_000)}`
  const { hits } = await stage(t, `first\n${long}\nlast needle`)
  const found = await hits({ context: 1 })
  t.ok(
    found.some(({ text }) => text.includes('yneedley') && text.length < 20_000),
    'the part around the match'
  )
  t.equal(found.at(-1)?.text, 'last needle')
  t.equal(found.length, 2)
  const whole = `${'z'.repeat(16 * 1024 - 6)}needle`
  const { hits: ofBound } = await stage(t, `${whole}\nz${whole}\n`)
  t.strictSame(
    (await ofBound({})).map(({ text }) => text === whole),
    [true, false],
    'a line of the maximum length, and a longer one'
  )
  const { hits: none } = await stage(t, Buffer.concat([Buffer.alloc(3_000_000), Buffer.from('needle')]))
  t.equal((await none({})).length, 1)
})

t.test('returns the maximum number of hits with the maximum number of lines around them', async t => {
  const { run } = await stage(t, `${'x'.repeat(150)} needle\n`.repeat(40_000))
  t.equal((await run({ maxHits: 5000, context: 20 })).length, 5002)
  const { run: long } = await stage(t, `${'x'.repeat(16_000)} needle\n`.repeat(600))
  t.equal((await long({ maxHits: 500, context: 20 })).length, 502)
})

t.test('searches a file while it grows', async t => {
  const lines = Array.from({ length: 300_000 }, (_, n) =>
    n % 10_000 === 7 ? `line ${n} needle` : `line ${n} ${'x'.repeat(n % 90)}`
  )
  const text = `${lines.join('\n')}\n`
  const path = join(t.testdir({}), 'file')
  writeFileSync(path, text.slice(0, 8_000_000))
  const handle = await open(path, 'r+')
  t.teardown(() => handle.close())
  let more = (): void => {}
  const later = new Promise<void>(resolve => {
    more = resolve
  })
  const contents = {
    handle,
    async reach(wanted: number) {
      if (wanted <= 8_000_000) return { size: 8_000_000, isWhole: false }
      await later
      return { size: text.length, isWhole: true }
    }
  }
  const searches = createSearches()
  const found: string[] = []
  await searches.run(
    contents,
    { ...plain, context: 1, signal: new AbortController().signal, caller: 'somebody' },
    async event => {
      if (event.event === 'hit') found.push(event.data.text)
      // The first hits are found before the rest of the file exists.
      if (event.event === 'hit' && found.length === 1) {
        await handle.write(text.slice(8_000_000), 8_000_000)
        more()
      }
      if (event.event === 'done') t.equal(event.data.scannedBytes, text.length)
    }
  )
  t.same(
    found,
    lines.filter(line => line.endsWith('needle'))
  )
  const broken = {
    handle,
    reach: async (wanted: number) => {
      if (wanted <= 8_000_000) return { size: 8_000_000, isWhole: false }
      throw new Error('broken')
    }
  }
  let hits = 0
  const run = searches.run(
    broken,
    { ...plain, signal: new AbortController().signal, caller: 'somebody' },
    async ({ event }) => {
      if (event === 'hit') hits++
    }
  )
  await t.rejects(run, { message: 'broken' })
  t.ok(hits > 3, 'hits before the end are found')
  await searches.close()
})

t.test('handles an empty file and an empty range', async t => {
  const { run } = await stage(t, '')
  t.same(await run({}), [{ event: 'done', data: { scannedBytes: 0 } }])
  const { run: other } = await stage(t, 'needle\n')
  t.same(await other({ fromOffset: 99 }), [{ event: 'done', data: { scannedBytes: 0 } }])
  t.same(await other({ fromOffset: 3, toOffset: 2 }), [{ event: 'done', data: { scannedBytes: 0 } }])
})

t.test('stops for its caller, and for an expression that does not terminate', async t => {
  const { run } = await stage(t, `${'a'.repeat(4000)}!\n`.repeat(5000), 1000)
  const controller = new AbortController()
  const reason = new Error('gone')
  const over = run({ q: 'a', maxHits: 5000 }, controller.signal, async () => controller.abort(reason))
  await t.rejects(over, reason)
  await t.rejects(run({ q: '(a+)+$', isRegex: true }), { name: 'Refusal', message: /stopped/ })
  t.equal((await run({ q: '!', maxHits: 1 })).length, 3, 'other searches continue')
})

t.test('runs and queues a limited number of searches, and refuses one more', async t => {
  const path = join(t.testdir({}), 'file')
  writeFileSync(path, 'a needle\n')
  const handle = await open(path)
  t.teardown(() => handle.close())
  const contents = { handle, reach: async () => ({ size: 9, isWhole: true }) }
  const searches = createSearches({ maxSearches: 1, maxWaiting: 1 })
  const told: string[] = []
  const run = (name: string, held?: Promise<void>) =>
    searches.run(contents, { ...plain, signal: new AbortController().signal, caller: name }, async ({ event }) => {
      await held
      // On a busy machine there are progress events too.
      if (event !== 'progress') told.push(`${name} ${event}`)
    })
  let letGo = (): void => {}
  const first = run(
    'first',
    new Promise(resolve => {
      letGo = resolve
    })
  )
  const second = run('second')
  await t.rejects(run('third'), { kind: 'too_many', code: 'too_many_searches', retryAfterSeconds: 5 })
  letGo()
  await Promise.all([first, second])
  t.strictSame(told, ['first hit', 'first done', 'second hit', 'second done'])
  await searches.close()
})

t.test('a search that nobody reads gives its place to one that waits', async t => {
  const path = join(t.testdir({}), 'file')
  writeFileSync(path, 'a needle\n')
  const handle = await open(path)
  t.teardown(() => handle.close())
  const contents = { handle, reach: async () => ({ size: 9, isWhole: true }) }
  const searches = createSearches({ maxSearches: 1, unreadMs: 50 })
  const unread = (caller: string): Promise<void> =>
    searches.run(contents, { ...plain, signal: new AbortController().signal, caller }, () => new Promise(() => {}))
  const first = unread('first')
  const second = unread('second')
  await t.rejects(first, {
    code: 'search_too_slow',
    message: /hits were not read for a while, and another search waits/
  })
  const isEnded = second.then(
    () => true,
    () => true
  )
  const state = await Promise.race([isEnded, sleep(1500, 'goes on')])
  t.equal(state, 'goes on', 'while nobody waits, it may take its time')
  await searches.close()
  await isEnded
})

t.test('stops a search that takes too long', async t => {
  const path = join(t.testdir({}), 'file')
  writeFileSync(path, 'a needle\n')
  const handle = await open(path)
  t.teardown(() => handle.close())
  const endless = { handle, reach: () => new Promise<never>(() => {}) }
  const run = createSearches({ maxMs: 1 }).run(
    endless,
    { ...plain, signal: new AbortController().signal, caller: 'somebody' },
    async () => {}
  )
  await t.rejects(run, { code: 'search_too_slow', message: /exceeded the time limit\. Search a smaller part/ })
})

t.test('reuses threads, and lets the process end', async t => {
  const path = join(t.testdir({}), 'file')
  writeFileSync(path, 'a needle\n'.repeat(1000))
  const program = `
    import { readdirSync } from 'node:fs'
    import { open } from 'node:fs/promises'
    import { createSearches } from ${JSON.stringify(searchModule)}
    const handle = await open(${JSON.stringify(path)})
    const contents = { handle, reach: async () => ({ size: ${9 * 1000}, isWhole: true }) }
    const searches = createSearches()
    const query = { ...${JSON.stringify(plain)}, toOffset: undefined, signal: new AbortController().signal }
    const threads = () => process.platform === 'linux' ? readdirSync('/proc/self/task').length : 0
    const seen = []
    for (const maxHits of [2000, 5, 2000]) {
      let hits = 0
      await searches.run(contents, { ...query, maxHits }, async ({ event }) => { if (event === 'hit') hits++ })
      seen.push([hits, threads()])
    }
    await handle.close()
    console.log(JSON.stringify(seen))
  `
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program])
  const [first, cut, last] = JSON.parse(stdout)
  t.same([first[0], cut[0], last[0]], [1000, 5, 1000])
  t.equal(last[1], first[1], 'no additional thread')
})
