import t from 'tap'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { randomIds } from '../../lib/base/digests.js'
import { createExecutors } from '../../lib/install/unpack/executors.js'
import { alwaysRevert } from '../../lib/install/unpack/open-extraction.js'
import { createFiles } from '../../lib/deploy/files.js'
import { createPending } from '../../lib/deploy/pending.js'
import { createQueue } from '../../lib/deploy/queue.js'
import { createTargetLocks } from '../../lib/deploy/target-locks.js'
import { createTargetTurns, workOnTargetFile } from '../../lib/deploy/target-turns.js'
import { StopRequest } from '../../lib/deploy/failure.js'
import { deployStage } from '../support/deploy-stage.js'
import { zipOf } from '../support/zip.js'

t.test('turns', async t => {
  const stage = await deployStage(t)
  const files = createFiles(stage.home)
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const [queue, targets] = [createQueue(), createTargetLocks()]
  const pending = createPending({ ...stage, files })
  const ends = { settle: async () => {} }
  const refuseWhenStopping = () => {}
  const parts = { files, executors, targets, pending, queue, ends, open: alwaysRevert, refuseWhenStopping }
  const turns = createTargetTurns({ ...stage, ...parts })
  const project = await stage.addProject()
  const request = { projectId: project.id, cannot: 'Cannot do it' }
  /** Occupies the queue until the returned function is called. */
  const occupy = (): (() => void) => {
    let end = (): void => {}
    const run = (): Promise<void> => new Promise(resolve => (end = resolve))
    queue.add({ key: project.id, id: randomIds.id('dep_'), run, drop: async () => {} })
    return () => end()
  }

  await t.test('a turn extracts, leaves its journal until it is settled, and looks at files', async t => {
    const archivePath = join(stage.home.tmp, 'a.zip')
    writeFileSync(archivePath, await zipOf({ 'a.txt': '1' }))
    const size = await turns(request, async turn => {
      await t.rejects(turn.extract(archivePath, { reserved: ['a.txt'] }), { code: 'reserved_path' })
      await turn.extract(archivePath)
      t.ok(existsSync(files.journal(turn.id)))
      t.ok(targets.isHeld(turn.id))
      await turn.settle()
      const found = await turn.file({ path: 'a.txt' })
      return found.is === 'file' ? found.size : null
    })
    t.equal(size, 1)
    t.equal(readFileSync(join(project.deployPath, 'a.txt'), 'utf8'), '1')
    t.same(readdirSync(stage.home.deployments), [])
    const looked = await workOnTargetFile(executors, null, { target: project.deployPath, path: 'b.txt' })
    t.same(looked, { is: 'absent' })
    const broken = { comparing: () => ({ run: async () => ({ kind: 'died' }) as const, isStuck: () => false }) }
    await t.rejects(workOnTargetFile(broken, null, { target: project.deployPath, path: 'b.txt' }), {
      code: 'target_stuck'
    })
  })

  await t.test('an error of the work ends the turn, and the next one begins', async t => {
    await t.rejects(
      turns(request, async () => {
        throw new Error('broken')
      }),
      { message: 'broken' }
    )
    t.equal(await turns(request, async () => 'next'), 'next')
    await t.rejects(
      turns({ ...request, projectId: 'proj_x' }, async () => {}),
      { code: 'not_found' }
    )
  })

  await t.test('a turn waits, but not longer than it may', async t => {
    const end = occupy()
    let hasRun = false
    await t.rejects(
      turns({ ...request, maxWaitMs: 20 }, async () => {
        hasRun = true
      }),
      { code: 'deployment_running', message: /^Cannot do it: /, retryAfterSeconds: 5 }
    )
    const waiting = turns({ ...request, maxWaitMs: 60_000 }, async () => 'ran')
    end()
    t.equal(await waiting, 'ran')
    t.notOk(hasRun, 'the other one lost its place')
  })

  await t.test('a server that stops refuses those that wait', async t => {
    const end = occupy()
    const waiting = t.rejects(
      turns({ ...request, maxWaitMs: 60_000 }, async () => {}),
      { code: 'shutting_down', message: /^Cannot do it: / }
    )
    for (const entry of queue.takeBackAll()) void entry.drop(new StopRequest('stop', 'stopped'))
    await waiting
    end()
  })
})
