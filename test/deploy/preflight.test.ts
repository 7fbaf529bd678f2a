import t from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { preflight } from '../../lib/deploy/preflight.js'
import { insertLock } from '../../lib/store/tables/locks.js'
import { deployStage } from '../support/deploy-stage.js'
import { zipOf } from '../support/zip.js'

t.test('an archive is refused now for what its deployment would be refused for', async t => {
  const stage = await deployStage(t)
  const { id: projectId, deployPath } = await stage.addProject()
  const archivePath = join(stage.directory, 'a.zip')
  writeFileSync(archivePath, await zipOf({ a: 'text' }))
  const request = { projectId, archivePath, offered: { origin: 'upload' as const } }
  await preflight(stage, request)
  mkdirSync(deployPath, { recursive: true })
  await preflight(stage, request)

  stage.values.allow_client_scripts = false
  await t.rejects(preflight(stage, { ...request, offered: { origin: 'upload', postDeploy: 'x' } }), {
    code: 'client_scripts_off'
  })
  await preflight(stage, { ...request, offered: { origin: 'source deployment', postDeploy: 'x' } })
  stage.values.max_extracted_size = 0
  await t.rejects(preflight(stage, request), { code: /too_large|extracted/ })
  stage.values.max_extracted_size = 64
  writeFileSync(archivePath, 'no zip')
  await t.rejects(preflight(stage, request), { name: 'Refusal' })
  writeFileSync(archivePath, await zipOf({ '../a': 'text' }).catch(() => Buffer.from('no zip')))
  await t.rejects(preflight(stage, request), { name: 'Refusal' })
  await t.rejects(preflight(stage, { ...request, projectId: 'proj_none' }), { code: 'not_found' })

  await stage.store.write(tx => {
    const [createdAt, expiresAt] = [new Date().toISOString(), '9999-01-01T00:00:00.000Z']
    insertLock(tx, { projectId, kind: 'lock', owner: 'admin', reason: 'audit', createdAt, expiresAt })
  })
  await t.rejects(preflight(stage, request), { code: 'locked' })
})

t.test('a target that cannot be made or written is refused', async t => {
  const stage = await deployStage(t)
  const archivePath = join(stage.directory, 'a.zip')
  writeFileSync(archivePath, await zipOf({ a: 'text' }))
  const file = join(stage.directory, 'file')
  writeFileSync(file, 'x')
  for (const deployPath of [file, join(file, 'below')]) {
    const { id: projectId } = await stage.addProject({ id: `proj_${deployPath.length}`, deployPath })
    const request = { projectId, archivePath, offered: { origin: 'upload' as const } }
    await t.rejects(preflight(stage, request), { code: 'not_permitted' }, deployPath)
  }
})
