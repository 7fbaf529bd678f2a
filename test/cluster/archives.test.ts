import t from 'tap'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { Refusal } from '../../lib/base/errors.js'
import { randomIds, isIdOf } from '../../lib/base/digests.js'
import type { HubClient, HubRequest } from '../../lib/cluster/forwarded.js'
import { Archives, startMirror } from '../../lib/cluster/archives.js'
import { openStage } from '../support/store.js'
import { until } from '../support/until.js'

const deployId = 'dep_aaaaaaaaaaaaaaaa'
const bytes = randomBytes(200_000)
const facts = { deployId, sha256: createHash('sha256').update(bytes).digest('hex'), bytes: bytes.length }
const { signal } = new AbortController()
const seen = (name: string, agoMs = 0) => {
  return { name, url: `http://${name}`, applied: 1, seenAt: new Date(Date.now() - agoMs).toISOString() }
}

/** The archives of hub h1, whose requests to other hubs `answer` answers. */
async function stage(
  t: Parameters<typeof openStage>[0],
  hubs: object[],
  answer: (url: string, asked: HubRequest) => unknown
) {
  const { store, directory } = await openStage(t)
  const home = { deployments: join(directory, 'deployments'), tmp: join(directory, 'tmp') }
  mkdirSync(home.deployments)
  const asked: Array<[string, HubRequest]> = []
  const client: HubClient = {
    async ask({ url }, request) {
      asked.push([url, request])
      return answer(url, request) as never
    },
    async json({ url }, request) {
      asked.push([url, request])
      return answer(url, request)
    }
  }
  const role = () =>
    ({ kind: 'leader', leader: null, staleMs: 0, sequence: 1, problem: null, reason: null, passes: false }) as const
  const known = { get: store.get, all: store.all, write: store.write, role, hubs: async () => hubs as never }
  const archives = new Archives({
    store: known,
    hub: { name: 'h1', url: 'http://h1' },
    client,
    home,
    ids: randomIds,
    log: () => {}
  })
  return { archives, home, asked }
}

t.test('another hub takes a copy; one that is away is not asked', async t => {
  const { archives, asked } = await stage(t, [seen('h1'), seen('h2', 120_000), seen('h3')], () => ({ success: true }))
  t.strictSame(await archives.keep(facts, signal), ['h1', 'h3'])
  t.match(asked, [['http://h3', { method: 'POST', body: { ...facts, from: 'http://h1' } }]])
})

t.test('one hub alone keeps one copy, and two need two', async t => {
  const alone = await stage(t, [seen('h1')], () => ({}))
  t.strictSame(await alone.archives.keep(facts, signal), ['h1'])
  const failing = await stage(t, [seen('h1'), seen('h2')], () => {
    throw new Refusal('unavailable', 'hub_unreachable', 'no answer')
  })
  await t.rejects(failing.archives.keep(facts, signal), {
    code: 'no_second_copy',
    retryAfterSeconds: 10,
    message: /no answer/
  })
})

t.test('a broken transfer continues where it ended, and the digest decides', async t => {
  let calls = 0
  const { archives, home } = await stage(t, [seen('h2')], (_, { from = 0 }) => {
    calls++
    const part = bytes.subarray(from, calls === 1 ? 100_000 : undefined)
    const stream = calls === 1 ? Readable.from(broken(part)) : Readable.from([part])
    return Object.assign(stream, { statusCode: from > 0 ? 206 : 200 })
  })
  await archives.fetch(facts, 'h2', signal)
  t.equal(calls, 2)
  t.strictSame(readFileSync(join(home.deployments, `${deployId}.zip`)), bytes)
  const other = await stage(t, [seen('h2')], () =>
    Object.assign(Readable.from([randomBytes(bytes.length)]), { statusCode: 200 })
  )
  await t.rejects(other.archives.fetch(facts, 'h2', signal), { code: 'archive_differs' })
  t.notOk(existsSync(join(other.home.deployments, `${deployId}.zip`)))
  let sent = 0
  const endless = await stage(t, [seen('h2')], () =>
    Object.assign(
      Readable.from(
        (async function* () {
          for (; sent < 100 * bytes.length; sent += 65_536) yield randomBytes(65_536)
        })()
      ),
      { statusCode: 200 }
    )
  )
  await t.rejects(endless.archives.fetch(facts, 'h2', signal), { code: 'archive_differs', message: /sends more than/ })
  t.ok(sent < 3 * bytes.length + 1024 * 1024, 'no more than the archive is read, and once')
})

t.test('a file that is there already is not fetched', async t => {
  const { archives, home, asked } = await stage(t, [seen('h2')], () => t.fail('nobody is asked'))
  writeFileSync(join(home.deployments, `${deployId}.zip`), bytes)
  await archives.fetch(facts, 'h2', signal)
  t.strictSame(asked, [])
})

t.test('only ids are parts of paths', async t => {
  t.ok(isIdOf('dep_', deployId))
  for (const text of ['', '../x', `${deployId}/..`, 'dep_A']) t.notOk(isIdOf('dep_', text))
})

async function* broken(part: Buffer): AsyncGenerator<Buffer> {
  yield part
  throw new Error('the connection broke')
}

t.test('works when a record has changed, one run at a time, and ends with the hub', async t => {
  let [version, runs, open] = ['1', 0, 0]
  let aborted = false
  const mirror = startMirror({
    archives: {
      async mirror(signal) {
        t.equal(open++, 0)
        runs++
        await new Promise(resolve => setImmediate(resolve))
        signal.addEventListener('abort', () => void (aborted = true))
        open--
      }
    },
    store: { version: () => version, onRole: () => () => {} },
    log: () => t.fail('nothing fails'),
    everyMs: 2
  })
  await until(() => runs === 1)
  await new Promise(resolve => setTimeout(resolve, 20))
  t.equal(runs, 1, 'nothing has changed')
  version = '2'
  await until(() => runs === 2)
  await mirror.stop()
  t.ok(aborted)
})

t.test('an error is reported, and tried again with the next change', async t => {
  const told: unknown[] = []
  let version = 0
  const mirror = startMirror({
    archives: { mirror: async () => Promise.reject(new Error('no disk')) },
    store: { version: () => String(version++), onRole: () => () => {} },
    log: (_, error) => void told.push(error),
    everyMs: 1
  })
  await until(() => told.length > 1)
  await mirror.stop()
  t.match(told[0], { message: 'no disk' })
})
