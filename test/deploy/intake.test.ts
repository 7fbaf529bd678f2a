import t, { type Test } from 'tap'
import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../../lib/base/clock.js'
import { randomIds } from '../../lib/base/digests.js'
import { createFiles } from '../../lib/deploy/files.js'
import { createIntake } from '../../lib/deploy/intake.js'
import { never } from '../support/deploy-stage.js'
import { until } from '../support/until.js'

const limitBytes = 1024 * 1024

async function intakeStage(t: Test) {
  const directory = await mkdtemp(join(tmpdir(), 'svc-intake-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  const home = { directory, deployments: join(directory, 'deployments'), tmp: join(directory, 'tmp') }
  const files = createFiles(home)
  return { home, files, intake: createIntake({ home, files, ids: randomIds, clock: systemClock }) }
}

t.test('stores an upload with its length and SHA-256, readable only by the owner', async t => {
  const { intake, home } = await intakeStage(t)
  const bytes = Buffer.alloc(700_000, 'svc')
  const chunks = Array.from({ length: 70 }, (_, index) => bytes.subarray(index * 10_000, (index + 1) * 10_000))
  const received = await intake.receive(Readable.from(chunks), { limitBytes, signal: never })
  t.match(received, { bytes: 700_000, sha256: createHash('sha256').update(bytes).digest('hex') })
  t.ok(bytes.equals(await readFile(received.path)))
  t.equal((await stat(received.path)).mode & 0o777, 0o600)
  t.ok(received.startedAt <= received.endedAt)
  await received.discard()
  await received.discard()
  t.strictSame(await readdir(home.tmp), [])
})

t.test('a too large, empty or interrupted upload leaves nothing behind', async t => {
  const { intake, home } = await intakeStage(t)
  const cases: Array<{ what: string; bytes: Readable; error: { message?: RegExp | string; code?: string } }> = [
    { what: 'empty', bytes: Readable.from([]), error: { code: 'empty_upload' } },
    {
      what: 'one byte over',
      bytes: Readable.from([Buffer.alloc(limitBytes), Buffer.alloc(1)]),
      error: { code: 'too_large', message: /larger than 1\.0 MB/ }
    },
    {
      what: 'interrupted',
      bytes: Readable.from(
        (async function* () {
          yield Buffer.alloc(1000)
          throw new Error('socket closed')
        })()
      ),
      error: { message: 'socket closed' }
    }
  ]
  for (const { what, bytes, error } of cases) {
    t.comment(what)
    await t.rejects(intake.receive(bytes, { limitBytes, signal: never }), error as Error)
    t.ok(bytes.destroyed, 'nothing reads the rest')
    t.strictSame(await readdir(home.tmp), [])
  }
  const exact = await intake.receive(Readable.from([Buffer.alloc(limitBytes)]), { limitBytes, signal: never })
  t.equal(exact.bytes, limitBytes)
})

t.test('an abort throws its reason and leaves nothing behind', async t => {
  const { intake, home } = await intakeStage(t)
  const stopping = new AbortController()
  const endless = Readable.from(
    (async function* () {
      for (;;) {
        yield Buffer.alloc(10)
        await sleep(1)
      }
    })()
  )
  const reason = new Error('client went away')
  const receiving = intake.receive(endless, { limitBytes, signal: stopping.signal })
  await until(async () => (await readdir(home.tmp).catch(() => [])).length > 0)
  stopping.abort(reason)
  await t.rejects(receiving, reason)
  t.strictSame(await readdir(home.tmp), [])
  await t.rejects(intake.receive(Readable.from(['x']), { limitBytes, signal: AbortSignal.abort(reason) }), reason)
})

t.test('a kept archive stays after its upload is removed', async t => {
  const { intake, home, files } = await intakeStage(t)
  const received = await intake.receive(Readable.from([Buffer.from('zip')]), { limitBytes, signal: never })
  await intake.keep(received.path, 'dep_1')
  await received.discard()
  t.equal(await readFile(files.archive('dep_1'), 'utf8'), 'zip')
  t.strictSame(await readdir(home.deployments), ['dep_1.zip'])
  await t.rejects(intake.keep(received.path, 'dep_2'), { code: 'ENOENT' })
})
