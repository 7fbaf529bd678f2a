import t, { type Test } from 'tap'
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fingerprintOf, randomIds } from '../../lib/base/digests.js'
import { createFiles } from '../../lib/deploy/files.js'
import { createSettings } from '../../lib/settings/settings.js'
import { findDeployment } from '../../lib/store/tables/deployments.js'
import { importPackage } from '../../lib/transfer/import.js'
import { admin, deployStage, type DeployStage } from '../support/deploy-stage.js'
import { freezeAt } from '../support/freeze.js'
import { zipOf } from '../support/zip.js'
import { deploySays } from '../support/sentences/deploy.js'

/** Copies a data directory in its current state. */
async function copied(t: Test, { directory }: DeployStage): Promise<string> {
  const copy = join(tmpdir(), `svc-copied-${randomIds.token()}`)
  t.teardown(() => rm(copy, { recursive: true, force: true }))
  await cp(directory, copy, {
    recursive: true,
    preserveTimestamps: true,
    filter: path => !/\/(targets|trees)/.test(path)
  })
  return copy
}

t.test('a killed import leaves each deployment with the files of its record', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  const row = await before.deploy(project, { 'a.txt': '1' })
  await rm(createFiles(before.home).manifest(row.id))
  const added = randomIds.id('dep_')
  const artifact = await zipOf({ 'a.txt': 'of the package' })
  const deployment = { id: row.id, projectId: project.id, status: 'success', startTime: '2026-01-31T12:00:00.000Z' }
  const path = join(before.directory, 'package.zip')
  await writeFile(
    path,
    await zipOf(
      Object.fromEntries(
        [
          [
            'manifest.json',
            JSON.stringify({ schemaVersion: 1, artifacts: [{ projectId: project.id, deployId: row.id }] })
          ],
          [
            'projects.json',
            JSON.stringify([{ id: project.id, name: 'Shop', deployPath: project.deployPath, token: project.token }])
          ],
          ['deployments.json', JSON.stringify([deployment, { ...deployment, id: added }])],
          [`outputs/${row.id}.log`, '2026-01-31T12:00:00.000Z of the package\n'],
          [`artifacts/${project.id}.zip`, artifact]
        ].map(([name, value]) => [`svc-export/${String(name)}`, value as string])
      )
    )
  )
  const old = await readFile(createFiles(before.home).archive(row.id))
  const seen = new Set<string>()
  for (let point = 0; ; point += 2) {
    const directory = await copied(t, before)
    const victim = await deployStage({ teardown: () => {} } as unknown as Test, directory)
    const audit = { within: () => {}, record: async () => {} }
    const settings = createSettings({ store: victim.store, audit })
    const needs = { ...victim, settings, audit, version: 'test', deployments: victim.deployer }
    const request = {
      strategy: 'overwrite',
      accessSettings: false,
      restoreArtifacts: false,
      dryRun: false,
      actor: admin
    } as const
    // The checkpoint that a start begins would go on after the kill.
    await victim.store.checkpoint()
    const isFrozen = await freezeAt(point, () => importPackage(needs, path, request))
    const started = await deployStage(t, directory)
    const files = createFiles(started.home)
    const isImported = findDeployment(started.store, added) !== undefined
    seen.add(`${isImported ? 'new' : 'old'}`)
    const names = isImported ? [`${added}.log`, `${row.id}.log`, `${row.id}.zip`] : [`${row.id}.log`, `${row.id}.zip`]
    t.strictSame((await readdir(started.home.deployments)).sort(), names.sort(), `point ${point}`)
    t.strictSame(await readdir(started.home.tmp), [])
    t.ok(
      (await readFile(files.archive(row.id))).equals(isImported ? Buffer.from(artifact) : old),
      'the archive matches its record'
    )
    t.match(await readFile(files.output(row.id), 'utf8'), isImported ? /of the package/ : deploySays.succeeded)
    if (isFrozen) continue
    await victim.store.close()
    break
  }
  t.strictSame([...seen].sort(), ['new', 'old'])
})

t.test('changes nothing without a record, because the database was lost', async t => {
  const stage = await deployStage(t)
  const id = randomIds.id('dep_')
  const name = `${randomIds.token()}.${fingerprintOf({ id })}.${id}.zip.before`
  await writeFile(join(stage.home.tmp, `${randomIds.token()}.${fingerprintOf(undefined)}.${id}.zip.absent`), '')
  await writeFile(join(stage.home.tmp, name), 'old')
  await writeFile(createFiles(stage.home).archive(id), 'new')
  const again = await stage.restart()
  t.strictSame(await readdir(again.home.tmp), [name])
  t.equal(await readFile(createFiles(again.home).archive(id), 'utf8'), 'new')
})
