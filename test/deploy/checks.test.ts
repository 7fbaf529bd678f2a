import { createServer, type AddressInfo } from 'node:net'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { CheckSources, NewLines } from '../../lib/deploy/check-sources.js'
import { createChecks } from '../../lib/deploy/checks.js'
import { createSearches } from '../../lib/logs/search/search.js'
import { createMasker } from '../../lib/deploy/scripts/masking.js'
import type { ScriptStage } from '../../lib/deploy/scripts/script-run.js'
import type { Check } from '../../lib/model/policy.js'
import type { Pm2Binding } from '../../lib/model/pm2.js'
import { statusServer } from '../support/held.js'

const searches = createSearches({ stallMs: 300 })
t.teardown(() => searches.close())

function stage(t: Test, patch: Partial<CheckSources> = {}) {
  const target = t.testdir({})
  const sources: CheckSources = {
    hosts: () => [],
    pm2: async () => ({ bound: false, message: 'not linked' }),
    log: async () => ({ lines: [], endOffset: 0, hasMore: false }),
    firstMatch: searches.firstMatch,
    ...patch
  }
  const scripts = {
    target,
    directory: null,
    shell: null,
    isFirst: false,
    umask: null,
    rights: null,
    masker: createMasker(['hunter2hunter2']),
    env: { PATH: process.env['PATH'], SVC_DEPLOY_ID: 'dep_a' }
  } as Partial<ScriptStage> as ScriptStage
  const checked = { deployId: 'dep_a', project: { id: 'proj_a', pm2AppName: 'shop' }, stage: () => scripts }
  const attempt = createChecks(sources, checked)
  const { signal } = new AbortController()
  return { target, attempt: (check: Check, timeoutMs = 2000) => attempt(check, { timeoutMs, signal }), raw: attempt }
}

t.test('asks an HTTP server', async t => {
  const server = await statusServer(t)
  const { attempt } = stage(t)
  t.strictSame(await attempt({ http: server.url }), { ok: true, message: '200' })
  t.strictSame(await attempt({ http: server.url, contains: 'hello' }), { ok: true, message: '200' })
  t.match(await attempt({ http: server.url, contains: '${SVC_DEPLOY_ID}' }), { ok: false, message: /^200, but/ })
  server.status = 302
  t.strictSame(await attempt({ http: server.url }), { ok: false, message: '302' })
  t.strictSame(await attempt({ http: server.url, status: '300-399' }), { ok: true, message: '302' })
  t.match(await attempt({ http: 'http://192.0.2.1/' }), { ok: false, message: /gate_hosts/ })
})

t.test('connects to a port', async t => {
  const server = createServer(socket => socket.destroy())
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const place = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const { attempt } = stage(t)
  t.strictSame(await attempt({ tcp: place }), { ok: true, message: 'connected' })
  await new Promise(resolve => server.close(resolve))
  t.match(await attempt({ tcp: place }), { ok: false, message: /refused/ })
  t.match(await attempt({ tcp: 'no port' }), { ok: false })
})

t.test('runs a command like a script, and masks secrets', async t => {
  const { attempt, target } = stage(t)
  writeFileSync(join(target, 'here'), '')
  t.strictSame(await attempt({ command: 'test -e here && test "$SVC_DEPLOY_ID" = dep_a' }), {
    ok: true,
    message: 'exit code 0'
  })
  t.strictSame(await attempt({ command: 'echo first; echo hunter2hunter2 >&2; exit 3' }), {
    ok: false,
    message: 'exit code 3: ***'
  })
  t.match(await attempt({ command: 'sleep 60' }, 100), { ok: false, message: /time limit/ })
  t.match(await attempt({ command: 'sleep 0.3', timeout: 20 }, 100), { ok: true })
  t.match(await attempt({ command: 'kill -9 $$' }), { ok: false, message: /SIGKILL/ })
})

t.test('asks PM2, and fails if the application restarts', async t => {
  let binding = { bound: false, message: 'not linked' } as Pm2Binding
  const { attempt } = stage(t, { pm2: async () => binding })
  const pm2 = { pm2: 'online' } as const
  t.strictSame(await attempt(pm2), { ok: false, message: 'not linked' })
  binding = { bound: true, found: false, name: 'shop' }
  t.match(await attempt(pm2), { ok: false, message: /"shop"/ })
  const app = { bound: true, found: true, name: 'shop', status: 'online', restarts: 4 }
  binding = app as Pm2Binding
  t.strictSame(await attempt(pm2), { ok: true, message: 'online' })
  binding = { ...app, restarts: 6 } as Pm2Binding
  t.strictSame(await attempt(pm2), { ok: false, message: 'restarted 2 times' })
  binding = { ...app, status: 'errored' } as Pm2Binding
  t.strictSame(await attempt(pm2), { ok: false, message: 'errored' })
})

t.test('reads the new lines of a log', async t => {
  const asked: Array<number | null> = []
  const answers: NewLines[] = [
    { lines: [], endOffset: 100, hasMore: false },
    { lines: ['fine'], endOffset: 200, hasMore: true },
    { lines: ['still fine'], endOffset: 300, hasMore: false },
    { lines: ['a PANIC'], endOffset: 400, hasMore: false }
  ]
  const { attempt } = stage(t, {
    async log({ offset, projectId, sourceId }) {
      t.strictSame([projectId, sourceId], ['proj_a', 'lsrc_a'])
      asked.push(offset)
      return answers.shift() as NewLines
    }
  })
  const check = { log: 'lsrc_a', none: '(?i)panic', for: 1 }
  t.strictSame(await attempt(check), { ok: true, message: 'no such line' })
  t.strictSame(await attempt(check), { ok: true, message: 'no such line' })
  t.strictSame(await attempt(check), { ok: false, message: 'found: a PANIC' })
  t.strictSame(asked, [null, 100, 200, 300])
})

t.test('an expression that never ends fails the check, and stops nothing', async t => {
  const line = 'the application wrote a long line of plain words here and then a sign that ends it!'
  const answers = [[line], [line], ['fine']]
  const log = async () => ({ lines: answers.shift() ?? [], endOffset: 100, hasMore: false })
  const { attempt } = stage(t, { log })
  let turns = 0
  const counting = setInterval(() => void turns++, 1)
  const endless = await attempt({ log: 'lsrc_a', none: '^(\\w+\\s?)*$', for: 1 })
  clearInterval(counting)
  t.match(endless, { ok: false, message: /takes too long/ })
  t.ok(turns > 20, `the event loop went on ${turns} times`)
  t.strictSame(await attempt({ log: 'lsrc_a', none: 'panic', for: 1 }), { ok: true, message: 'no such line' })
})

t.test('an error is an answer, but an abort is not', async t => {
  const log = async () => {
    throw new Error('no such log source')
  }
  const { attempt, raw } = stage(t, { log })
  const check = { log: 'lsrc_a', none: 'x', for: 1 }
  t.strictSame(await attempt(check), { ok: false, message: 'no such log source' })
  const signal = AbortSignal.abort(new Error('cancelled'))
  await t.rejects(raw(check, { timeoutMs: 1, signal }), { message: 'cancelled' })
})
