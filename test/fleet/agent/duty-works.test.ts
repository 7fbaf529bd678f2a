import t from 'tap'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startAgentStage } from '../../support/agent-stage.js'
import { until } from '../../support/until.js'
import { Refusal } from '../../../lib/base/errors.js'
import { keepDuty, makeReady, waitAfter } from '../../../lib/fleet/agent/duty-works.js'
import { obey } from '../../../lib/fleet/duty.js'
import type { Duty, DutyState } from '../../../lib/model/fleet-wire.js'
import { listDuties } from '../../../lib/core/store/tables/fleet.js'
import { openStage } from '../../support/store.js'
import type { Release } from '../../../lib/fleet/agent/releases.js'
import { never } from '../../support/deploy-stage.js'

t.test('a release whose checks fail goes back, and one without a way back is stuck', async t => {
  const { hub, sites } = await startAgentStage(t)
  const deployPath = join(sites, 'a')
  const first = await hub.release('proj_a', { a: '1' }, { deployPath })
  await hub.answer(hub.order(first, 'swap'), 'good')
  const gate = {
    after: [{ command: 'echo no way; exit 3' }],
    interval: 1,
    // Also on a busy machine the command ends in it.
    timeout: 30,
    deadline: 1,
    successes: 1,
    stableFor: 0,
    onFailure: 'revert' as const
  }
  const bad = await hub.release('proj_a', { a: '2' }, { deployPath, policy: { gate } })
  await hub.answer(hub.order(bad, 'prepare', { number: 2 }), 'prepared')
  const failed = await hub.answer(hub.order(bad, 'swap', { number: 2 }), 'failed')
  t.match(failed, { failedStep: 'check', error: /exit/, output: /no way/ })
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '1')
  await hub.reported(({ placements }) => placements[0]?.liveDeployId === first.deployId)

  const kept = await hub.release('proj_a', { a: '3' }, { deployPath, project: { postDeployScript: 'exit 7' } })
  const stuck = await hub.answer(hub.order(kept, 'swap', { number: 3 }), 'stuck')
  t.match(stuck, { failedStep: 'postDeploy' })
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '3')
  await hub.answer(hub.order(kept, 'revert', { number: 3 }), 'reverted')
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '1')
  await hub.reported(({ placements }) => placements[0]?.liveDeployId === first.deployId)
})

t.test('a release that is stuck twice goes back to the files before the first attempt', async t => {
  const { hub, sites } = await startAgentStage(t)
  const deployPath = join(sites, 'a')
  const first = await hub.release('proj_a', { a: '1', only: 'x' }, { deployPath })
  await hub.answer(hub.order(first, 'swap'), 'good')
  const kept = await hub.release('proj_a', { a: '2' }, { deployPath, project: { postDeployScript: 'exit 7' } })
  await hub.answer(hub.order(kept, 'swap', { number: 2 }), 'stuck')
  t.match(await hub.answer(hub.order(kept, 'swap', { number: 2 }), 'stuck'), { failedStep: 'postDeploy' })
  await hub.answer(hub.order(kept, 'revert', { number: 2 }), 'reverted')
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '1')
  await until(() => hub.reports.at(-1)?.placements[0]?.liveDeployId === first.deployId)
})

t.test('a second attempt that fails before it begins leaves a stuck node stuck, and it can still go back', async t => {
  const { hub, sites } = await startAgentStage(t)
  const deployPath = join(sites, 'a')
  const first = await hub.release('proj_a', { a: '1' }, { deployPath })
  await hub.answer(hub.order(first, 'swap'), 'good')
  const project = { preDeployScript: `test ! -e ${sites}/no`, postDeployScript: 'exit 7' }
  const kept = await hub.release('proj_a', { a: '2' }, { deployPath, project })
  await hub.answer(hub.order(kept, 'swap', { number: 2 }), 'stuck')
  writeFileSync(join(sites, 'no'), '')
  const again = await hub.answer(hub.order(kept, 'swap', { number: 2 }), 'stuck')
  t.match(again, { failedStep: 'preDeploy' }, 'the files of the first attempt are in place')
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '2')
  rmSync(join(sites, 'no'))
  await hub.answer(hub.order(kept, 'revert', { number: 2 }), 'reverted')
  t.equal(readFileSync(join(deployPath, 'a'), 'utf8'), '1')
})

const order = { epoch: 'e', rolloutId: 'ro_a', number: 1, attempt: 1, action: 'swap' } as const
const keptRelease = { deployId: 'dep_a', treeSha256: 't', archiveSha256: 'a', archiveBytes: 1 }
const noResult = { failedStep: null, output: null, tookMs: null }
const { state } = obey(null, order) as { state: DutyState }
const own = { projectId: 'proj_a', nodeId: 'node_a', isRemoved: false }
const duty: Duty = { ...own, state, before: null, release: keptRelease, swapId: null, undoId: null, ...noResult }

t.test('a change is in memory at once, and one that cannot be stored is taken back', async t => {
  const { store } = await openStage(t)
  let isFull = false
  const full = (): Promise<never> => Promise.reject(new Refusal('unavailable', 'disk_full', 'No room'))
  const kept = keepDuty({ write: work => (isFull ? full() : store.write(work)) }, duty)
  const writing = kept.write({ swapId: 'dep_1' })
  t.equal(kept.duty.swapId, 'dep_1')
  await writing
  t.match(listDuties(store)[0], { swapId: 'dep_1' })

  isFull = true
  await t.rejects(kept.write({ swapId: 'dep_2' }), { code: 'disk_full' })
  t.equal(kept.duty.swapId, 'dep_1')
  const lost = kept.write({ swapId: 'dep_3' })
  isFull = false
  await Promise.all([kept.write({ output: 'later' }), lost.catch(() => {})])
  await kept.written()
  t.match(listDuties(store)[0], kept.duty, 'memory and disk agree after a later change')
})

const release = { archivePath: '/a.zip' } as Release

/** Fails with these errors, one after the other, and then has the release. */
function failing(errors: Error[], signal: AbortSignal = never) {
  const reasons: string[] = []
  let attempts = 0
  const made = makeReady({
    async prepare() {
      attempts++
      const error = errors.shift()
      if (error !== undefined) throw error
      return release
    },
    retriesMs: [1],
    failed: reason => void reasons.push(reason),
    signal
  })
  return { made, reasons, attempts: () => attempts }
}

t.test('tries again while the hub cannot be reached, and says so once', async t => {
  const away = () => new Refusal('unavailable', 'hub_unreachable', 'No hub')
  const { made, reasons, attempts } = failing([away(), away(), new Error('reset')])
  t.equal(await made, release)
  t.same(reasons, ['No hub'])
  t.equal(attempts(), 4)
})

t.test('returns what another attempt would not cure; an archive is fetched a second time if it is damaged', async t => {
  const damaged = () => new Refusal('invalid', 'wrong_digest', 'Another digest')
  t.equal(await failing([damaged()]).made, release)
  t.match(await failing([damaged(), damaged()]).made, { code: 'wrong_digest' })
  t.match(await failing([new Refusal('unavailable', 'no_space', 'Full')]).made, { code: 'no_space' })
  t.match(await failing([new Refusal('forbidden', 'client_scripts_off', 'No')]).made, { code: 'client_scripts_off' })
})

t.test('is given up when the signal aborts', async t => {
  const controller = new AbortController()
  const { made } = failing(Array(1000).fill(new Error('reset')), controller.signal)
  controller.abort()
  t.equal(await made, 'given up')
})

t.test('the last wait is repeated', t => {
  t.same(
    [0, 1, 2, 9].map(attempt => waitAfter(attempt, [5, 6, 7])),
    [5, 6, 7, 7]
  )
  t.end()
})
