import t from 'tap'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import type { RepairRequest } from '../../lib/deploy/admission.js'
import type { Project } from '../../lib/model/project.js'
import { admin, deployStage, never, type DeployStage } from '../support/deploy-stage.js'

async function repair(
  { deployer }: DeployStage,
  project: Project,
  request: Partial<RepairRequest> = {}
): Promise<Awaited<Awaited<ReturnType<DeployStage['deployer']['repair']>>['finished']>> {
  const run = await deployer.repair(project.id, { actor: admin, signal: never, ...request })
  const row = await run.finished
  await deployer.ownedTree(project.id)
  return row
}

async function differing({ deployer }: DeployStage, project: Project): Promise<string[]> {
  const found: string[] = []
  for await (const events of deployer.verify({ projectId: project.id, sums: false, signal: never }))
    for (const event of events) if (event.event === 'finding') found.push(`${event.path} ${event.state}`)
  return found
}

t.test('puts back what differs, from the archives that contain it', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const at = (name: string): string => join(project.deployPath, name)
  const names = ['bytes', 'gone', 'mode', 'type', 'same', 'sub/deep']
  await stage.deploy(project, Object.fromEntries(names.map(name => [name, `${name} of one`])))
  const second = await stage.deploy(project, { gone: 'gone of two' })
  const before = names.map(name => statSync(at(name)))

  writeFileSync(at('bytes'), 'by hand')
  chmodSync(at('mode'), 0o600)
  for (const name of ['gone', 'type']) rmSync(at(name))
  rmSync(at('sub'), { recursive: true })
  symlinkSync('same', at('type'))
  writeFileSync(at('not-of-svc'), 'mine')
  t.equal((await differing(stage, project)).length, 5)
  const row = await repair(stage, project, { message: 'after the incident' })
  t.match(row, {
    status: 'success',
    triggerSource: 'repair',
    exact: true,
    rollbackOf: null,
    message: 'after the incident',
    fileCount: 5
  })
  t.strictSame(await differing(stage, project), [])
  for (const [index, name] of names.entries()) {
    t.equal(readFileSync(at(name), 'utf8'), name === 'gone' ? 'gone of two' : `${name} of one`)
    t.equal(statSync(at(name)).mode, before[index]?.mode, name)
    t.equal(statSync(at(name)).mtimeMs, before[index]?.mtimeMs, name)
  }
  t.equal(readFileSync(at('not-of-svc'), 'utf8'), 'mine')
  t.match(stage.audits.at(-1), { action: 'deployment.repair', target: row.id })
  const output = await stage.output(row.id)
  t.match(output, `Deployment ${row.id} (a repair of 5 files)`)
  t.match(output, '→ puts back 5 files')
  t.match(output, 'replaced "bytes", which was edited on the server')
  t.ok(existsSync(join(stage.home.deployments, `${row.id}.before.zip`)), 'the edited file is kept')

  const undo = await (await stage.deployer.undo(project.id, { actor: admin })).finished
  t.match(undo, { status: 'success', undoOf: row.id })
  t.equal(readFileSync(at('bytes'), 'utf8'), 'by hand', 'a repair can be undone')
  t.equal(lstatSync(at('type')).isSymbolicLink() && readlinkSync(at('type')), 'same')
  t.equal(second.status, 'success')
})

t.test('repairs only the paths that are named', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: 'x', b: 'x', c: 'x' })
  for (const name of ['a', 'b']) rmSync(join(project.deployPath, name))
  await t.rejects(repair(stage, project, { paths: ['a', 'other'] }), {
    code: 'invalid_field',
    message: '"other" in "paths" is not a file that svc put there'
  })
  await t.rejects(repair(stage, project, { paths: ['c'] }), { code: 'nothing_to_repair' })
  t.match(await repair(stage, project, { paths: ['a'] }), { status: 'success', fileCount: 1 })
  t.strictSame(await differing(stage, project), ['b missing'])
  await repair(stage, project)
  await t.rejects(repair(stage, project), { code: 'nothing_to_repair', kind: 'conflict' })
  await t.rejects(stage.deployer.repair('proj_x', { actor: admin, signal: never }), { code: 'not_found' })
})

t.test('runs scripts only if they are asked for', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ postDeployScript: 'echo ran >> ../ran' })
  const ran = (): number => readFileSync(join(project.deployPath, '../ran'), 'utf8').split('\n').length - 1
  await stage.deploy(project, { a: 'x' })
  t.equal(ran(), 1)
  for (const runScripts of [undefined, false, true]) {
    rmSync(join(project.deployPath, 'a'))
    t.match(await repair(stage, project, { runScripts }), { status: 'success' })
  }
  t.equal(ran(), 2)
})

t.test('refuses files whose contents are not kept', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const { id } = await stage.deploy(project, { a: 'x', b: 'x' })
  const second = await stage.deploy(project, { b: 'y' })
  for (const name of ['a', 'b']) rmSync(join(project.deployPath, name))
  rmSync(join(stage.home.deployments, `${id}.zip`))
  await t.rejects(repair(stage, project), {
    code: 'no_content',
    message: `Cannot put "a" back: the archive of deployment ${id}, which contains it, has been removed. Deploy again`
  })
  t.notOk(existsSync(join(project.deployPath, 'b')), 'nothing was changed')
  t.match(await repair(stage, project, { paths: ['b'] }), { status: 'success' })
  t.equal(second.status, 'success')
})

t.test('a directory in the way stops the whole repair', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: 'x', b: 'x' })
  for (const name of ['a', 'b']) rmSync(join(project.deployPath, name))
  mkdirSync(join(project.deployPath, 'a'))
  writeFileSync(join(project.deployPath, 'a/own'), '')
  const row = await repair(stage, project)
  t.match(row, { status: 'failed', placed: null })
  t.match(row.errorMessage, '"a/own", which svc did not put there')
  t.strictSame(readdirSync(project.deployPath), ['a'])
  rmSync(join(project.deployPath, 'a/own'))
  t.match(await repair(stage, project), { status: 'success' }, 'an empty one gives way')
})

t.test('repairs what is still different when it starts', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'sleep 0.5' })
  await stage.deploy(project, { a: 'one', b: 'one' })
  for (const name of ['a', 'b']) rmSync(join(project.deployPath, name))
  const push = await stage.push(project, { a: 'two' })
  const run = await stage.deployer.repair(project.id, { actor: admin, signal: never })
  await push.finished
  t.match(await run.finished, { status: 'success', fileCount: 1 })
  t.equal(readFileSync(join(project.deployPath, 'a'), 'utf8'), 'two')
  t.equal(readFileSync(join(project.deployPath, 'b'), 'utf8'), 'one')
})
