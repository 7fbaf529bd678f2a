import t from 'tap'
import type { Test } from 'tap'
import { existsSync, utimesSync } from 'node:fs'
import { cp, link, mkdir, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { ownMark } from '../../lib/base/runtime.js'
import { fingerprintOf, randomIds } from '../../lib/base/digests.js'
import { createFiles, sharedChanges } from '../../lib/deploy/files.js'
import { findStaleFiles, findUnrecordedFiles } from '../../lib/deploy/strays.js'
import { treesOf } from '../../lib/deploy/trees.js'
import { findDeployment, updateDeployment } from '../../lib/core/store/tables/deployments.js'
import { admin, deployStage, type DeployStage } from '../support/deploy-stage.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'
import { createSettings } from '../../lib/projects/settings.js'
import { importPackage } from '../../lib/carry/transfer/import.js'
import { freezeAt } from '../support/freeze.js'
import { zipOf } from '../support/zip.js'

const past = new Date('2020-01-01T00:00:00Z')
/** The clock was set back since. */
const future = new Date('2100-01-01T00:00:00Z')

/** Returns the names in `deployments/` and `tmp/`, sorted. */
async function namesOf({ home }: DeployStage): Promise<string[]> {
  const [deployments, tmp] = await Promise.all([home.deployments, home.tmp].map(path => readdir(path)))
  return [...(deployments ?? []), ...(tmp ?? [])].sort()
}

const ownFiles = (...ids: string[]): string[] =>
  ids.flatMap(id => ['log', 'manifest', 'zip'].map(ending => `${id}.${ending}`)).sort()

t.test('a start removes and logs what an earlier server left behind', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  const row = await before.deploy(project, { 'a.txt': '1' })
  const files = createFiles(before.home)
  const inTmp = (name: string): string => join(before.home.tmp, name)
  await before.deployer.ownedTree(project.id)
  const [neverRecorded, recordLost] = [randomIds.id('dep_'), randomIds.id('dep_')]
  const upload = files.upload(randomIds.token())
  await writeFile(upload, 'zip')
  await link(upload, files.archive(neverRecorded))
  await writeFile(files.output(neverRecorded), '')
  await writeFile(files.archive(recordLost), 'zip')
  const ended = ownMark().replace(/\d+$/, '1')
  const ofMark = (mark: string, id: string): string => join(tmpdir(), `svc-${mark}${id}.changes`)
  const gone = [
    files.changes(recordLost),
    `${files.manifest(row.id)}.tmp`,
    inTmp('inflated-4711-0'),
    join(treesOf(before.home), `${project.id}.tree.tmp`),
    join(treesOf(before.home), `${randomIds.id('proj_')}.tree`),
    ofMark(`${ended}-`, row.id),
    // Its process has ended: no backup that knows the deployment is needed to say so.
    ofMark(`${ended}-`, recordLost),
    // An earlier version named them without the process.
    ofMark('', row.id)
  ]
  const others = [ofMark('', recordLost), sharedChanges(files.changes(recordLost))]
  t.teardown(() => Promise.all(others.map(path => rm(path, { force: true }))))
  for (const path of [...gone, inTmp('notes.txt'), ...others]) await writeFile(path, 'mine')
  // A helper process was killed that had nothing to keep.
  const unused = files.before(row.id)
  await writeFile(unused, '')
  gone.push(unused)
  await mkdir(inTmp(`${randomIds.token()}.backup`))
  for (const [at, path] of [files.archive(recordLost), ...gone, ...others, upload, inTmp('notes.txt')].entries())
    await utimes(path, ...(at % 2 === 0 ? ([past, past] as const) : ([future, future] as const)))

  const marks = ['', `${ended}-`, `${ownMark()}-`, '']
  const pipes = ['KILLED', 'KILLED', 'MAKING', 'MAKING'].map((name, at) =>
    join(tmpdir(), `svc-pipe-${marks[at]}${name}`)
  ) as [string, string, string, string]
  t.teardown(() => Promise.all(pipes.map(path => rm(path, { recursive: true, force: true }))))
  for (const path of pipes) {
    await mkdir(path, { recursive: true })
    await writeFile(join(path, 'output'), '')
  }
  await utimes(pipes[0], past, past)

  const stage = await before.restart()
  t.strictSame(pipes.map(existsSync), [false, false, true, true], 'a pipe that another server is making stays')
  t.strictSame(await namesOf(stage), [...ownFiles(row.id), `${recordLost}.zip`, 'notes.txt'].sort())
  for (const path of gone) t.notOk(existsSync(path), path)
  for (const path of others) t.ok(existsSync(path), 'a list that another server may use stays')
  t.strictSame(await readdir(treesOf(stage.home)), [`${project.id}.tree`])
  t.match(stage.faults, [[matching(deploySays.leftoversRemoved(12), /.*dep_/)]])
  t.match(
    (await stage.deployer.unrecordedFiles()).map(({ path }) => basename(path)),
    [`${recordLost}.zip`]
  )

  await stage.store.write(tx => updateDeployment(tx, row.id, { hasArtifact: false }))
  await utimes(files.archive(row.id), future, future)
  const again = await stage.restart()
  t.notOk(existsSync(files.archive(row.id)), 'the server was killed between updating the record and removing the file')
  t.ok(existsSync(files.manifest(row.id)))
  t.strictSame((await again.restart()).faults, [], 'a clean start logs nothing')
})

t.test('a clean-up finds files that are unused and unchanged for an hour', async t => {
  const upload = (letter: string): string => `${letter.repeat(43)}.zip`
  const idOf = (letter: string): string => `dep_${letter.repeat(16)}`
  const old = [upload('a'), `${idOf('b')}.changes`, `${idOf('c')}.changes`, 'somebody-elses.txt']
  const tmp = t.testdir(Object.fromEntries([...old, upload('d')].map(name => [name, ''])))
  const nowMs = Date.now()
  const seconds = nowMs / 1000 - 2 * 60 * 60
  for (const name of old) utimesSync(join(tmp, name), seconds, seconds)
  const isLive = (deployId: string): boolean => deployId === idOf('c')
  const namesIn = (found: Array<{ path: string }>): string[] => found.map(({ path }) => basename(path)).sort()
  t.same(namesIn(await findStaleFiles({ tmp }, { nowMs, isLive })), [upload('a'), old[1]])
  t.same(await findStaleFiles({ tmp: join(tmp, 'missing') }, { nowMs, isLive }), [])

  const stage = await deployStage(t)
  const kept = await stage.deploy(await stage.addProject(), { a: '1' })
  const files = createFiles(stage.home)
  const strays = [files.output(idOf('a')), files.archive(idOf('b')), files.archive(idOf('c'))]
  for (const path of [...strays, files.archive(idOf('d'))]) await writeFile(path, '')
  for (const path of [...strays, files.archive(kept.id)]) utimesSync(path, seconds, seconds)
  const found = (): Promise<string[]> =>
    findUnrecordedFiles(stage.home, stage.store, { nowMs, isLive, isNeeded: async () => false }).then(namesIn)
  t.same(await found(), [`${idOf('a')}.log`, `${idOf('b')}.zip`])
  await stage.store.write(tx => updateDeployment(tx, kept.id, { hasArtifact: false }))
  t.ok((await found()).includes(`${kept.id}.zip`), 'its record says that it was removed')
})

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
