import t from 'tap'
import { readFile, rm } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createFiles } from '../../lib/deploy/files.js'
import { offeredBySource, refuseRollback } from '../../lib/deploy/rollback.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { admin, deployStage } from '../support/deploy-stage.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'

t.test('a rollback is a new deployment with the earlier content', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    postDeployScript: 'echo "$SVC_DEPLOY_MODE of [$SVC_ROLLBACK_OF] after [$SVC_PREVIOUS_DEPLOY_ID]"'
  })
  const first = await stage.deploy(project, { 'index.html': 'one', 'only-first.txt': '1' })
  const second = await stage.deploy(project, { 'index.html': 'two' })
  t.match(await stage.output(first.id), /deploy of \[\] after \[\]/)

  const run = await stage.deployer.rollback(first.id, { message: 'back', actor: admin })
  const row = await run.finished
  t.match(row, {
    status: 'success',
    triggerSource: 'rollback',
    rollbackOf: first.id,
    message: 'back',
    archiveSha256: first.archiveSha256,
    archiveBytes: first.archiveBytes,
    hasArtifact: true,
    fileCount: 2
  })
  t.equal(await readFile(join(project.deployPath, 'index.html'), 'utf8'), 'one')
  t.match(await stage.output(row.id), new RegExp(`rollback of \\[${first.id}\\] after \\[${second.id}\\]`))
  t.match(stage.notices.at(-1), { trigger: 'rollback', event: 'deploy_success', deployment: { rollbackOf: first.id } })
  t.match(stage.audits.at(-1), { action: 'deployment.rollback', target: row.id, detail: `to ${first.id}` })
  t.strictSame(await stage.deployer.changes(row.id, second.id), {
    added: ['only-first.txt'],
    changed: ['index.html'],
    removed: []
  })
  t.strictSame(await stage.deployer.changes(second.id, row.id), {
    added: [],
    changed: ['index.html'],
    removed: ['only-first.txt']
  })

  await rm(createFiles(stage.home).archive(first.id))
  const again = await (await stage.deployer.rollback(row.id, { actor: admin })).finished
  t.match(again, { status: 'success', rollbackOf: row.id }, 'a rollback has its own archive')
})

t.test('a failed rollback is kept and notified', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': '1' })
  await stage.change(project, { preDeployScript: 'exit 7' })
  const row = await (await stage.deployer.rollback(first.id, { actor: admin })).finished
  t.match(row, {
    status: 'failed',
    triggerSource: 'rollback',
    rollbackOf: first.id,
    errorMessage: deploySays.failedWith('pre-deploy', 7)
  })
  t.match(stage.notices.at(-1), {
    trigger: 'rollback',
    event: 'deploy_failure',
    errorMessage: deploySays.failedWith('pre-deploy', 7)
  })
  t.equal(stage.row(row.id).status, 'failed')
})

t.test('runs the client scripts of the source again, unless they are disabled now', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const source = await stage.deploy(
    project,
    { 'a.txt': '1' },
    { preDeploy: 'echo client-pre', postDeploy: 'echo client-post' }
  )
  const again = await (await stage.deployer.rollback(source.id, { actor: admin })).finished
  t.match(await stage.output(again.id), matching(deploySays.asInSource('pre-deploy'), /\nclient-pre[^]*client-post/))
  t.equal(again.scripts.length, 2)
  await stage.change(project, { allowClientScripts: false })
  const without = await (await stage.deployer.rollback(source.id, { actor: admin })).finished
  t.match(without, { status: 'success', scripts: [] })
  t.match(await stage.output(without.id), deploySays.leftOut('preDeploy'))
})

t.test('refuses a deployment that cannot be rolled back to', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exec sleep 5' })
  await t.rejects(stage.deployer.rollback('dep_none', { actor: admin }), { code: 'not_found' })
  const run = await stage.push(project, { 'a.txt': '1' })
  await t.rejects(stage.deployer.rollback(run.deployId, { actor: admin }), { kind: 'conflict', code: 'not_finished' })
  await stage.deployer.cancel(run.deployId, admin)
  await rm(createFiles(stage.home).archive(run.deployId))
  await t.rejects(stage.deployer.rollback(run.deployId, { actor: admin }), { kind: 'conflict', code: 'no_archive' })
  t.notOk(existsSync(`${project.deployPath}/a.txt`))
})

t.test('offers the client scripts that ran', async t => {
  const source = {
    id: 'dep_1',
    status: 'success',
    hasArtifact: true,
    scripts: [
      { step: 'preDeploy', source: 'platform', script: 'p', async: false },
      { step: 'postDeploy', source: 'client', script: 'c', async: true }
    ]
  } as unknown as DeploymentRow
  t.strictSame(offeredBySource(source), {
    origin: 'source deployment',
    preDeploy: undefined,
    postDeploy: 'c',
    postDeployAsync: true
  })
  t.doesNotThrow(() => refuseRollback(source))
  t.throws(() => refuseRollback({ ...source, hasArtifact: false }), { code: 'no_archive' })
})
