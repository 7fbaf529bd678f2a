import t from 'tap'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createFiles } from '../../lib/deploy/files.js'
import { Scripted } from '../../lib/deploy/scripted.js'
import { Trees } from '../../lib/deploy/trees.js'
import { createExecutors } from '../../lib/core/install/unpack/executors.js'
import type { Project } from '../../lib/model/project.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import type { VerifyEvent } from '../../lib/model/plan.js'
import { admin, deployStage, never, type DeployStage } from '../support/deploy-stage.js'
import { gateOf, patient } from '../support/held.js'
import { exactTree } from '../support/exact-tree.js'
import { openDirectory } from '../support/open-directory.js'
import { until } from '../support/until.js'
import { maySwitchUser } from '../../lib/core/proc/identity.js'

async function differing(stage: DeployStage, project: Project): Promise<string[]> {
  const found: string[] = []
  await stage.deployer.ownedTree(project.id)
  for await (const events of stage.deployer.verify({ projectId: project.id, sums: false, signal: never })) {
    for (const event of events as VerifyEvent[])
      if (event.event === 'finding') found.push(`${event.path} ${event.state}`)
  }
  return found
}

const treeOf = (project: Project): Record<string, string> => inSeconds(exactTree(project.deployPath))

/** Node sets no times finer than a microsecond, and scripts do. */
function inSeconds(tree: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(tree).map(([path, is]) => [path, is.replace(/^(file \d+ \d+)\d{6} /, '$1 ')])
  )
}

const read = (project: Project, path: string): string => readFileSync(join(project.deployPath, path), 'utf8')

async function undo(stage: DeployStage, project: Project, force = false): Promise<DeploymentRow> {
  return (await stage.deployer.undo(project.id, { actor: admin, force })).finished
}

async function exactly(stage: DeployStage, to: string): Promise<DeploymentRow> {
  return (await stage.deployer.rollback(to, { mode: 'exact', actor: admin })).finished
}

/** What a script may do to a deployed file, each in a way of its own. */
const scripts: Record<string, string> = {
  'writes in place': 'printf edited >> a.txt',
  'replaces by rename': 'sed -i s/one/edited/ a.txt',
  'keeps size and time': 'cp -p a.txt t; printf ONE | dd of=a.txt conv=notrunc status=none; touch -r t a.txt; rm t',
  'changes the mode': 'chmod 600 a.txt',
  'changes the time': 'touch -d 2001-01-01 a.txt',
  removes: 'rm a.txt',
  'replaces by a link': 'ln -sf b.txt a.txt',
  'replaces by a directory': 'rm a.txt; mkdir a.txt; echo x > a.txt/own',
  'moves a directory': 'mv dir other',
  'replaces a directory by a link': 'mv dir other; ln -s other dir',
  'makes files': 'echo x > dir/made; echo y > made',
  'changes an earlier file': 'test ! -e old.txt || echo more >> old.txt',
  'writes and fails': 'sed -i s/one/edited/ a.txt; false'
}

for (const step of ['postDeployScript', 'preDeployScript'] as const) {
  t.test(`what a ${step} changes belongs to its deployment`, async t => {
    const stage = await deployStage(t)
    for (const [name, script] of Object.entries(scripts)) {
      await t.test(`a script that ${name}`, async t => {
        const project = await stage.addProject({ policy: { drift: 'refuse' } })
        await stage.deploy(project, { 'old.txt': 'old', 'a.txt': 'zero', 'b.txt': 'zero', 'dir/c.txt': 'zero' })
        const before = treeOf(project)
        await stage.change(project, { [step]: `cd "$SVC_DEPLOY_PATH" && { ${script}; }` })
        const row = await stage.deploy(project, { 'a.txt': 'one', 'b.txt': 'one', 'dir/c.txt': 'one' })
        t.strictSame(await differing(stage, project), [], 'nothing differs')
        const after = treeOf(project)
        await stage.change(project, { [step]: '' })
        // What the script made is in the way then.
        if (/directory/.test(name)) return
        const untouched = ({ made: _, 'dir/made': __, ...tree }: Record<string, unknown>): unknown => tree
        if (row.placed !== null) {
          t.match(await undo(stage, project), { status: 'success' })
          t.strictSame(untouched(treeOf(project)), before, 'the undo undoes it')
          t.match(await undo(stage, project), { status: 'success' })
          t.strictSame(treeOf(project), after, 'and the undo of the undo brings it back')
        }
        const next = await stage.deploy(project, { 'a.txt': 'two', 'b.txt': 'two', 'dir/c.txt': 'two' })
        t.match(next, { status: 'success' })
        t.notMatch(await stage.output(next.id), 'edited on the server')
      })
    }
    t.strictSame(stage.faults, [])
  })
}

t.test('edits of people are still edits, also where a script has been', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    policy: { drift: 'refuse' },
    postDeployScript: 'sed -i s/@/script/ a.txt'
  })
  const first = await stage.deploy(project, { 'a.txt': '@1', 'b.txt': '1' })
  t.match(await stage.output(first.id), '→ the script changed 1 deployed file: "a.txt"')
  t.strictSame(await differing(stage, project), [])
  writeFileSync(join(project.deployPath, 'a.txt'), 'by hand')
  t.strictSame(await differing(stage, project), ['a.txt changed'])
  t.match(await stage.deploy(project, { 'a.txt': '@2', 'b.txt': '2' }), { status: 'failed', placed: null })
  t.strictSame(await differing(stage, project), ['a.txt changed'], 'the failed one takes no edit over')

  const repaired = await (await stage.deployer.repair(project.id, { actor: admin, runScripts: false, signal: never }))
    .finished
  t.match(repaired, { status: 'success' })
  t.equal(read(project, 'a.txt'), 'script1', 'a repair brings back what the script made')
  t.strictSame(await differing(stage, project), [])
})

t.test('an exact rollback brings back what the scripts of its goal made', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ postDeployScript: 'sed -i "s/@/$(cat count)/" a.txt; date +%s%N > count' })
  await stage.deploy(project, { count: '0', 'a.txt': '@ one' })
  const goal = await stage.deploy(project, { 'a.txt': '@ two' })
  const then = treeOf(project)
  await stage.deploy(project, { 'a.txt': '@ three', 'new.txt': '@' })
  await stage.deploy(project, { 'a.txt': '@ four' })
  await stage.change(project, { postDeployScript: '' })
  t.match(await exactly(stage, goal.id), { status: 'success' })
  t.strictSame(treeOf(project), then)
  t.strictSame(await differing(stage, project), [])
  const owned = await stage.deployer.ownedTree(project.id)
  t.equal(owned.baseline, 'owned')
  // The tree follows from the records alone.
  rmSync(join(stage.home.directory, 'trees'), { recursive: true })
  t.strictSame(await differing(stage, project), [])
})

t.test('a deployment that goes back leaves nothing that counts as edited', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    policy: { drift: 'refuse', onPostFailure: 'revert' },
    preDeployScript: 'test ! -e old.txt || echo pre >> old.txt',
    postDeployScript: 'echo "$SVC_DEPLOY_MODE" >> a.txt; echo post >> old.txt; test "$(head -1 a.txt)" != bad'
  })
  t.match(await stage.deploy(project, { 'a.txt': 'good\n', 'old.txt': 'old\n' }), { status: 'success' })
  const bad = await stage.deploy(project, { 'a.txt': 'bad\n' })
  t.match(bad, { status: 'failed', revertReason: 'post', placed: null })
  t.equal(read(project, 'a.txt'), 'good\ndeploy\nrevert\n')
  t.equal(read(project, 'old.txt'), 'old\npost\npre\npost\npost\n')
  t.strictSame(await differing(stage, project), [])
  t.strictSame(readdirSync(project.deployPath).sort(), ['a.txt', 'old.txt'], 'no file was kept as edited')
  t.notOk(existsSync(join(stage.home.deployments, `${bad.id}.scripted`)), 'what it changed belongs to the live one')
  t.match(await stage.deploy(project, { 'a.txt': 'good\n', 'old.txt': 'old\n' }), { status: 'success' })
})

t.test('commands of checks and scripts in the background belong to it, too', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    policy: { gate: gateOf([{ command: 'date +%N >> a.txt' }], { ...patient, successes: 2 }) },
    postDeployScript: 'sed -i s/1/script/ b.txt'
  })
  const row = await stage.deploy(project, { 'a.txt': '1\n', 'b.txt': '1\n' })
  t.match(row, { status: 'success' })
  t.strictSame(await differing(stage, project), [])

  const late = await stage.addProject({ postDeployScript: 'sleep 0.3; echo late >> a.txt', postDeployAsync: true })
  t.match(await stage.deploy(late, { 'a.txt': '1\n' }), { status: 'success' })
  await until(() => read(late, 'a.txt') !== '1\n')
  await until(async () => (await differing(stage, late)).length === 0)
  t.equal(read(late, 'a.txt'), '1\nlate\n')
})

t.test('after a kill, the next start looks at what a script has changed', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const { id: deployId } = await stage.deploy(project, { 'a.txt': '1', 'b.txt': '1' })
  const files = createFiles(stage.home)
  const needs = { ...stage, files, executors: createExecutors(), trees: new Trees({ ...stage, files }) }
  // The process is killed while a script runs.
  await new Scripted(needs).begin({ deployId, project, say: () => {}, onSources: () => {} })
  writeFileSync(join(project.deployPath, 'a.txt'), 'by the script')
  const next = await stage.restart()
  t.strictSame(await differing(next, project), [])
  t.notOk(existsSync(files.marks(deployId)))
  writeFileSync(files.marks(deployId), 'torn')
  const last = await next.restart()
  t.match(last.faults, [[/Cannot find out what the scripts of deployment/, Error]])
  t.notOk(existsSync(files.marks(deployId)))
})

t.test('what is too large is not kept, and a way back says so', async t => {
  const stage = await deployStage(t)
  stage.values.max_before_size = 0
  const project = await stage.addProject({ postDeployScript: 'echo more >> a.txt' })
  const first = await stage.deploy(project, { 'a.txt': '1' })
  await stage.deploy(project, { 'a.txt': '2' })
  t.strictSame(await differing(stage, project), [])
  const back = await exactly(stage, first.id).catch((error: Error) => ({
    status: 'failed',
    errorMessage: error.message
  }))
  t.match(back, { status: 'failed', errorMessage: /too large to be kept/ })
  rmSync(join(project.deployPath, 'a.txt'))
  const repair = stage.deployer.repair(project.id, { actor: admin, runScripts: false, signal: never })
  await t.rejects(repair, { code: 'no_content' })
})

t.test('nothing is written if a script changes nothing', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ postDeployScript: 'chown "$(id -u)" .; cat a.txt' })
  const row = await stage.deploy(project, { 'a.txt': '1' })
  const names = readdirSync(stage.home.deployments).filter(name => name.startsWith(row.id))
  t.strictSame(names.sort(), [`${row.id}.log`, `${row.id}.manifest`, `${row.id}.zip`])
})

t.test(
  'a script with the rights of the user of a project is looked after, too',
  maySwitchUser() ? {} : { skip: 'only root on Linux can switch to another user' },
  async t => {
    const stage = await deployStage(t)
    const deployPath = join(openDirectory(t), 'site')
    mkdirSync(deployPath)
    chmodSync(deployPath, 0o777)
    const project = await stage.addProject({ deployPath, runAs: 'nobody', policy: { drift: 'refuse' } })
    await stage.deploy(project, { 'a.txt': 'zero', 'b.txt': 'zero', 'dir/c.txt': 'zero' })
    const before = treeOf(project)
    await stage.change(project, { postDeployScript: 'sed -i s/one/script/ a.txt; rm b.txt; chmod 600 dir/c.txt' })
    const row = await stage.deploy(project, { 'a.txt': 'one', 'b.txt': 'one', 'dir/c.txt': 'one' })
    t.match(row, { status: 'success' })
    t.strictSame(await differing(stage, project), [])
    const after = treeOf(project)
    await stage.change(project, { postDeployScript: '' })
    t.match(await undo(stage, project), { status: 'success' })
    t.strictSame(treeOf(project), before)
    t.match(await undo(stage, project), { status: 'success' })
    t.strictSame(treeOf(project), after)
    t.match(await stage.deploy(project, { 'a.txt': 'two' }), { status: 'success' })
    t.strictSame(stage.faults, [])
  }
)

t.test('the quota counts copies once, and none that were given up', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy: { onPostFailure: 'revert' } })
  await stage.deploy(project, { 'a.txt': 'one', 'b.txt': 'one' })
  const script = 'date +%N >> a.txt'
  await stage.change(project, { preDeployScript: script, postDeployScript: `${script}; test ! -e bad` })
  await stage.deploy(project, { 'a.txt': 'two', 'b.txt': 'two' })
  await stage.deploy(project, { 'a.txt': 'three', bad: 'x' })
  const names = readdirSync(stage.home.deployments)
  const onDisk = names.filter(name => name.endsWith('.scripted.zip')).map(name => sizeOf(stage, name))
  t.equal(onDisk.length, 1)
  const counted = stage.kept.reduce((sum, [, bytes]) => sum + bytes, 0)
  const all = names.filter(name => /\.(zip|log)$/.test(name)).reduce((sum, name) => sum + sizeOf(stage, name), 0)
  t.equal(counted, all)
})

function sizeOf(stage: DeployStage, name: string): number {
  return readFileSync(join(stage.home.deployments, name)).length
}
