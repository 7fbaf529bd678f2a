import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { waitUntilFree } from '../../../lib/cli/pack/waiting.js'
import type { UploadPermit } from '../../../lib/model/upload-permit.js'

const permit = (deploymentsAhead?: number): UploadPermit => ({
  success: true,
  features: [],
  project: { id: 'proj_a', name: 'shop', env: 'production' },
  ...(deploymentsAhead !== undefined && { deploymentsAhead }),
  maxUploadBytes: 1,
  maxExtractedBytes: 1
})
const locked = new Refusal('conflict', 'locked', 'Project shop is locked')

/** Waits for these answers of the server, with a clock that only the pauses move. */
async function waitFor(answers: Array<UploadPermit | Refusal | null>, limitMs = 60_000) {
  const [notes, pauses]: [string[], number[]] = [[], []]
  let nowMs = 0
  const result = await waitUntilFree({
    async check() {
      const answer = answers.shift()
      if (answer instanceof Refusal) throw answer
      return answer ?? null
    },
    limitMs,
    signal: new AbortController().signal,
    note: line => void notes.push(line),
    now: () => nowMs,
    async sleep(ms) {
      pauses.push(ms)
      nowMs += ms
    }
  }).catch((error: unknown) => error)
  return { result, notes, pauses }
}

t.test('a push waits for locks and for deployments, and notes each change once', async t => {
  const free = permit(0)
  const { result, notes, pauses } = await waitFor([locked, locked, permit(2), permit(1), free])
  t.equal(result, free)
  t.same(notes, [
    'Waiting: Project shop is locked',
    'Waiting: 2 deployments of this project ahead',
    'Waiting: 1 deployment of this project ahead'
  ])
  t.equal(pauses.length, 4)
  for (const ms of pauses) t.ok(ms >= 4000 && ms <= 6000, `${ms} ms`)
})

t.test('a push that waits for a rollout names it, and what to do', async t => {
  const since = '2030-01-01T00:00:00.000Z'
  const waits = { ...permit(1), rolloutAhead: { id: 'ro_a', state: 'approval' as const, since, until: null } }
  const { notes } = await waitFor([waits, permit(0)])
  t.match(notes, [
    /1 deployment of this project ahead: rollout ro_a has waited for an approval since 2030-.*approve ro_a"/
  ])
  t.equal(notes.length, 1)
})

t.test('a server that does not know the queue is not waited for', async t => {
  t.equal((await waitFor([null])).result, null)
  t.match((await waitFor([permit()])).pauses, [])
})

t.test('the time limit ends the wait with what it waited for', async t => {
  const first = await waitFor(Array(10).fill(locked), 12_000)
  t.equal(first.result, locked)
  t.equal(Math.round(first.pauses.reduce((a, b) => a + b)), 12_000)
  t.match((await waitFor(Array(10).fill(permit(3)), 5000)).result, { code: 'still_busy', message: /3 deployments/ })
})

t.test('any other refusal ends the wait at once', async t => {
  const refusal = new Refusal('unauthorized', 'unauthorized', 'The token is not valid')
  t.match(await waitFor([locked, refusal]), { result: refusal, pauses: { length: 1 } })
})

t.test('an abort ends the wait with its reason', async t => {
  const controller = new AbortController()
  const reason = new Error('Ctrl-C')
  const note = () => controller.abort(reason)
  const check = async () => permit(1)
  await t.rejects(waitUntilFree({ check, limitMs: 60_000, signal: controller.signal, note }), reason)
})
