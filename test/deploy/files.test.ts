import t from 'tap'
import { chmodSync, existsSync, lstatSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { randomIds } from '../../lib/base/digests.js'
import { createFiles, deploymentFilePattern, makeDirectories, temporaryFilePattern } from '../../lib/deploy/files.js'
import { givenPolicy } from '../../lib/model/policy-keys.js'
import type { Project } from '../../lib/model/project.js'
import { admin, deployStage, type DeployStage, never } from '../support/deploy-stage.js'
import { makeZip } from '../support/make-zip.js'
import { treeBody } from '../support/planned.js'

t.test('names and removes the files of a deployment', async t => {
  const directory = t.testdir({})
  const home = { directory, deployments: join(directory, 'deployments'), tmp: join(directory, 'tmp') }
  const files = createFiles(home)
  await makeDirectories(home)
  await makeDirectories(home)
  const paths = [files.archive('dep_a'), files.output('dep_a'), files.manifest('dep_a')]
  t.strictSame(
    paths,
    ['zip', 'log', 'manifest'].map(kind => join(home.deployments, `dep_a.${kind}`))
  )
  for (const path of paths) await writeFile(path, 'x')
  await files.remove('dep_a')
  await files.remove('dep_a')
  t.notOk(paths.some(path => existsSync(path)))
  rmSync(directory, { recursive: true })
  await t.rejects(makeDirectories(home), { code: 'database_unavailable', message: /was moved or removed/ })
  t.notOk(existsSync(directory), 'a data directory that was moved is not made again')
})

t.test('recognizes its own file names', async t => {
  const id = randomIds.id('dep_')
  t.match(`${id}.zip`, deploymentFilePattern)
  t.match(`${randomIds.token()}.zip`, temporaryFilePattern)
  t.match(`${id}.changes`, temporaryFilePattern)
  for (const name of ['notes.zip', 'dep_1.zip', `${id}.zip.bak`, `x${id}.zip`]) {
    t.notMatch(name, deploymentFilePattern)
    t.notMatch(name, temporaryFilePattern)
  }
})

const modeAt = ({ deployPath }: Project, path = ''): string =>
  (lstatSync(join(deployPath, path)).mode & 0o7777).toString(8).padStart(4, '0')

const entries = (page: string) => [
  { name: 'page', data: page, mode: 0o100600 },
  { name: 'bin/run', data: '#!', mode: 0o100700 },
  { name: 'listed/', data: '', mode: 0o040711 },
  { name: 'listed/a', data: 'a', mode: 0o100664 }
]

/** Deploys a page, a program and a directory with their own permissions. */
async function push({ deployer }: DeployStage, project: Project, page: string) {
  const received = await deployer.receive(Readable.from([makeZip(entries(page))]), { limitBytes: 1e6, signal: never })
  return (await deployer.deploy(received, { projectId: project.id, env: {}, actor: admin })).finished
}

const modesIn = (project: Project): string[] =>
  ['page', 'bin/run', 'listed/a', 'bin', 'listed', 'foreign', 'foreign/x'].map(path => modeAt(project, path))

t.test('permissions of the policy apply to what svc puts in place, and to nothing else', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ umask: '077' })
  mkdirSync(join(project.deployPath, 'foreign'), { recursive: true })
  chmodSync(join(project.deployPath, 'foreign'), 0o700)
  writeFileSync(join(project.deployPath, 'foreign/x'), 'x', { mode: 0o600 })
  await stage.change(project, { umask: null, policy: { fileMode: '0640', directoryMode: '2750' } })
  const first = await push(stage, project, '1')
  t.equal(first.status, 'success')
  t.strictSame(modesIn(project), ['0640', '0750', '0640', '2750', '2750', '0700', '0600'])
  t.match(await stage.deployer.repair(project.id, { actor: admin, signal: never }).catch(error => error), {
    code: 'nothing_to_repair'
  })

  await stage.change(project, { policy: { fileMode: '0444' } })
  const site = join(stage.directory, 'site')
  mkdirSync(join(site, 'bin'), { recursive: true })
  mkdirSync(join(site, 'listed'))
  for (const { name, data, mode } of entries('1').filter(({ name }) => !name.endsWith('/')))
    writeFileSync(join(site, name), data, { mode })
  for (const { name, mode } of entries('1')) chmodSync(join(site, name), mode & 0o7777)
  const tree = await treeBody(site)
  const asks = { asks: { prune: undefined, force: false }, listed: 9, scripts: {}, mayUpload: true, clientTimeMs: null }
  const request = { projectId: project.id, tree, noSpace: null, maxUploadBytes: 5, signal: never, ...asks }
  const plan = await stage.deployer.plan(request)
  t.strictSame(plan.paths.changed, ['bin/run', 'listed/a', 'page'], 'the plan counts them')
  const second = await push(stage, project, '1')
  t.match(await stage.output(second.id), '0 new or changed, 3 with other permissions')
  t.strictSame(modesIn(project), ['0444', '0555', '0444', '2750', '2750', '0700', '0600'], 'directories keep theirs')

  const undo = await stage.deployer.undo(project.id, { actor: admin })
  t.match(await undo.finished, { status: 'success' })
  t.strictSame(modesIn(project).slice(0, 3), ['0640', '0750', '0640'], 'an undo restores the earlier ones')
  chmodSync(join(project.deployPath, 'page'), 0o666)
  const repair = await stage.deployer.repair(project.id, { actor: admin, signal: never })
  t.match(await repair.finished, { status: 'success' })
  t.equal(modeAt(project, 'page'), '0640', 'a repair, too')
})

t.test('a new target has the permissions of the policy, and a revert takes them back', async t => {
  const stage = await deployStage(t)
  const policy = { fileMode: '0644', directoryMode: '0755', onPostFailure: 'revert' } as const
  const project = await stage.addProject({ umask: '077', policy })
  await push(stage, project, '1')
  t.strictSame(
    ['', 'page', 'bin'].map(path => modeAt(project, path)),
    ['0755', '0644', '0755'],
    'not the umask'
  )
  await stage.change(project, { policy: { ...policy, fileMode: '0600' }, postDeployScript: 'exit 1' })
  t.match(await push(stage, project, '2'), { status: 'failed', revertReason: 'post' })
  t.strictSame(
    ['page', 'bin/run'].map(path => modeAt(project, path)),
    ['0644', '0755']
  )
})

t.test('the file of the maintenance has the permissions of the policy, too', async t => {
  const stage = await deployStage(t)
  const policy = { fileMode: '0640', directoryMode: '2750', maintenanceFile: 'public/down' }
  const project = await stage.addProject({ umask: '077', policy })
  const request = { projectId: project.id, actor: admin, force: false, reason: null }
  await stage.deployer.maintenance.on(request)
  t.strictSame([modeAt(project, 'public'), modeAt(project, 'public/down')], ['2750', '0640'])
  await stage.deployer.maintenance.off({ ...request, mayEndOthers: true })

  await stage.change(project, { policy: { maintenanceFile: 'public/down' } })
  await stage.deployer.maintenance.on(request)
  t.equal(modeAt(project, 'public/down'), '0600', 'without the policy, the umask decides')
})

t.test('permissions with which svc could not read its files are refused', async t => {
  for (const [key, value] of [
    ['fileMode', '0044'],
    ['fileMode', '4755'],
    ['fileMode', '648'],
    ['fileMode', 420],
    ['directoryMode', '0655'],
    ['directoryMode', 'rwx']
  ] as const)
    t.throws(
      () => givenPolicy({ [key]: value }, 'policy'),
      { code: 'invalid_field', field: `policy.${key}` },
      `${key} ${value}`
    )
  t.same(givenPolicy({ fileMode: '644', directoryMode: '2775' }, 'policy'), { fileMode: '644', directoryMode: '2775' })
})
