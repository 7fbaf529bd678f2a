import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createUnfinished } from '../../lib/deploy/unfinished.js'
import { systemActor, type AuditEvent } from '../../lib/model/audit.js'
import { openStage } from '../support/store.js'

t.test('only a journal that nobody works on is listed and given up, and its owner goes with it', async t => {
  const { store } = await openStage(t)
  const deployments = t.testdir({})
  const away = join(t.testdirName, 'away')
  for (const id of ['dep_1', 'dep_2']) writeFileSync(join(deployments, `${id}.undo`), `svc-undo 4\ntarget ${away}\n`)
  const entries: AuditEvent[] = []
  const needs = { store, home: { deployments }, audit: (event: AuditEvent) => void entries.push(event) }
  const { unfinishedTargets, giveUp } = createUnfinished({
    ...needs,
    targets: { isHeld: (id: string) => id === 'dep_2' }
  } as never)
  t.strictSame(unfinishedTargets(), [{ deployId: 'dep_1', target: away }])
  const asked = { actor: systemActor }
  await t.rejects(giveUp('dep_2', asked), { code: 'not_found' })
  mkdirSync(away)
  t.strictSame(await giveUp('dep_1', asked), { deployId: 'dep_1', target: away }, 'another directory is at the path')
  t.strictSame(readdirSync(deployments).sort(), ['away', 'dep_2.undo'])
  t.match(entries, [{ action: 'deployment.give_up', target: 'dep_1', detail: away }])
})
