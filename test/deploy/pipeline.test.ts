import t from 'tap'
import type { Test } from 'tap'
import { setImmediate as turn } from 'node:timers/promises'
import { mkdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { deployStage } from '../support/deploy-stage.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'
import { StopRequest } from '../../lib/deploy/failure.js'
import { openOutput } from '../../lib/deploy/output/output.js'
import { createSteps } from '../../lib/deploy/pipeline.js'
import type { DeploymentStep } from '../../lib/model/deployment.js'
import { setClock } from '../support/clock.js'

t.test('runs the six steps in the order of §3', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    preDeployScript: 'echo "before: $(ls | tr "\\n" " ")"',
    postDeployScript: 'echo "after: $(ls | tr "\\n" " ")"; cat "$SVC_CHANGES"'
  })
  const row = await stage.deploy(project, { 'index.html': 'hello', 'assets/app.js': 'run()' }, { message: 'First' })

  t.match(row, {
    status: 'success',
    triggerSource: 'cli',
    errorMessage: null,
    fileCount: 2,
    hasArtifact: true,
    message: 'First',
    actorIp: '192.0.2.1'
  })
  t.match(row.duration, /^\d+\.\d\ds$/)
  t.strictSame(row, stage.row(row.id), 'the run returns its record')
  t.strictSame(
    row.steps.map(({ name, status }) => `${name} ${status}`),
    ['store success', 'target success', 'preDeploy success', 'extract success', 'postDeploy success', 'cleanup success']
  )
  const times = row.steps.flatMap(({ startedAt, endedAt }) => [startedAt, endedAt as string])
  t.strictSame(times, [...times].sort(), 'the steps do not overlap')
  t.strictSame(
    row.steps.map(step => step.exitCode),
    [undefined, undefined, 0, undefined, 0, undefined]
  )
  t.strictSame(
    row.scripts.map(({ step, source, async }) => [step, source, async]),
    [
      ['preDeploy', 'platform', false],
      ['postDeploy', 'platform', false]
    ]
  )
  t.equal(await readFile(join(project.deployPath, 'index.html'), 'utf8'), 'hello')

  const lines = (await stage.output(row.id)).split('\n')
  const places = [
    deploySays.headOf('Shop \\(production\\)', 'admin'),
    deploySays.archiveStored,
    deploySays.targetPrepared,
    matching(/^→ /, deploySays.setOnServer('pre-deploy'), /$/),
    /^before: $/,
    matching(/^→ /, deploySays.ended('pre-deploy', 0), / \(\d+\.\d\ds\)$/),
    deploySays.filesInPlace(2, 10, 2),
    matching(/^→ /, deploySays.setOnServer('post-deploy'), /$/),
    /^after: assets index\.html $/,
    /^assets\/app\.js$/,
    /^index\.html$/,
    matching(/^→ /, deploySays.ended('post-deploy', 0)),
    deploySays.zipRemoved,
    deploySays.succeeded
  ]
  for (const [index, place] of places.entries()) t.match(lines[index], place)
  t.equal(lines.length, places.length + 1)
  t.strictSame(stage.faults, [])
})

t.test('overwrites files of the same name and keeps others', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await mkdir(project.deployPath, { recursive: true })
  await writeFile(join(project.deployPath, 'kept.txt'), 'kept')
  await writeFile(join(project.deployPath, 'old.txt'), 'old')
  const row = await stage.deploy(project, { 'old.txt': 'new' })
  t.equal(row.status, 'success')
  t.strictSame(
    row.steps.map(step => step.status),
    ['success', 'success', 'skipped', 'success', 'skipped', 'success']
  )
  t.equal(await readFile(join(project.deployPath, 'kept.txt'), 'utf8'), 'kept')
  t.equal(await readFile(join(project.deployPath, 'old.txt'), 'utf8'), 'new')
})

t.test('after a failed step, only the clean-up runs, and the record says why', async t => {
  const cases = [
    {
      what: 'the pre-deploy script',
      patch: { preDeployScript: 'echo no; exit 3' },
      error: deploySays.failedWith('pre-deploy', 3),
      steps: ['store success', 'target success', 'preDeploy failed', 'cleanup success'],
      exitCode: 3,
      isExtracted: false
    },
    {
      what: 'the post-deploy script',
      patch: { postDeployScript: 'kill -9 $$' },
      error: deploySays.endedBySignal('post-deploy', 'SIGKILL'),
      steps: [
        'store success',
        'target success',
        'preDeploy skipped',
        'extract success',
        'postDeploy failed',
        'cleanup success'
      ],
      exitCode: null,
      isExtracted: true
    }
  ]
  for (const { what, patch, error, steps, exitCode, isExtracted } of cases) {
    const stage = await deployStage(t)
    const project = await stage.addProject(patch)
    const row = await stage.deploy(project, { 'a.txt': 'a' })
    t.match(row, { status: 'failed', errorMessage: error, hasArtifact: true }, what)
    t.strictSame(
      row.steps.map(({ name, status }) => `${name} ${status}`),
      steps
    )
    t.equal(row.steps.find(step => step.status === 'failed')?.exitCode, exitCode)
    t.equal(
      await stat(join(project.deployPath, 'a.txt')).then(
        () => true,
        () => false
      ),
      isExtracted
    )
    t.match(await stage.output(row.id), matching(deploySays.failedAfter, error, /\n$/))
    t.equal((await stage.output(row.id)).includes(deploySays.filesStay), isExtracted)
    t.match(stage.notices, [{ trigger: 'cli', event: 'deploy_failure', errorMessage: error }])
  }
})

t.test('an archive that cannot be extracted does not change the target', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'a.txt': 'a' })
  stage.values.max_extracted_size = 0.00001
  const row = await stage.deploy(project, { 'a.txt': 'b'.repeat(1000), 'b.txt': 'b' })
  t.equal(row.status, 'failed')
  t.match(row.errorMessage, deploySays.extractionFailed())
  t.equal(await readFile(join(project.deployPath, 'a.txt'), 'utf8'), 'a')
})

t.test('tolerates that the journal of another deployment disappears', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await symlink('nowhere', join(stage.home.deployments, 'dep_aaaaaaaaaaaaaaaa.undo'))
  t.match(await stage.deploy(project, { 'a.txt': '1' }), { status: 'success', errorMessage: null })
})

t.test('refuses a target that is a file', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await mkdir(join(stage.directory, 'targets'), { recursive: true })
  await writeFile(project.deployPath, 'a file')
  const row = await stage.deploy(project, { 'a.txt': 'a' })
  t.match(row, { status: 'failed', errorMessage: deploySays.targetFailed() })
  t.equal(await readFile(project.deployPath, 'utf8'), 'a file')
})

t.test('the post-deploy script runs even if the list of changes cannot be written', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    preDeployScript: `rm -r '${stage.home.tmp}'`,
    postDeployScript: 'set -u; echo "changes [$SVC_CHANGES]"'
  })
  const row = await stage.deploy(project, { 'index.html': 'hello' })
  t.match(row, { status: 'success', placed: 1 })
  t.match(await stage.output(row.id), matching(deploySays.changesNotWritten, /.*ENOENT[^]*\nchanges \[\]\n/))
})

t.test('a later correction does not change which deployment is live', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': '1' }, { postDeploy: 'exit 1' })
  t.match(first, { status: 'failed', placed: 1 })
  const unplaced = await stage.deploy(project, { 'a.txt': '2' }, { preDeploy: 'exit 1' })
  t.match(unplaced, { status: 'failed', placed: null })
  const run = await stage.push(project, { 'a.txt': '3' }, { postDeploy: 'sleep 60' })
  while (stage.row(run.deployId).steps.at(-1)?.name !== 'postDeploy') await turn()
  t.equal(stage.row(run.deployId).placed, 2, 'recorded at once, not at the end')
  t.match(await stage.deployer.cancel(run.deployId, { name: 'admin', ip: null }), { status: 'failed', placed: 2 })
  await stage.deployer.mark(run.deployId, 'success', { actor: { name: 'admin', ip: null } })
  t.equal(stage.row(run.deployId).placed, 2)
  const rollback = await stage.deployer.rollback(first.id, { actor: { name: 'admin', ip: null } })
  t.match(await rollback.finished, { status: 'failed', placed: 3 }, 'its script fails again')
})

const at = '2030-01-01T00:00:00.000Z'
const stored: DeploymentStep = { name: 'store', status: 'success', startedAt: at, endedAt: at }

async function stepsStage(t: Test) {
  const path = join(t.testdir({}), 'dep.log')
  const clock = setClock()
  const output = await openOutput({ path, clock })
  const stopping = new AbortController()
  const saved: string[] = []
  const save = async (steps: DeploymentStep[]): Promise<void> => {
    saved.push(steps.map(step => `${step.name} ${step.status}`).join(', '))
  }
  const steps = createSteps({ clock, output, signal: stopping.signal, done: [stored], save })
  return { path, clock, steps, saved, stopping }
}

t.test('records a step when it begins, with its times and its sentence', async t => {
  const { path, clock, steps, saved } = await stepsStage(t)
  await steps.run('target', async () => {
    clock.advance(1250)
    return 'prepared the target'
  })
  await steps.run('preDeploy', async () => null)
  t.strictSame(steps.all(), [
    stored,
    { name: 'target', status: 'success', startedAt: at, endedAt: '2030-01-01T00:00:01.250Z' },
    { name: 'preDeploy', status: 'skipped', startedAt: '2030-01-01T00:00:01.250Z', endedAt: '2030-01-01T00:00:01.250Z' }
  ])
  t.strictSame(saved, ['store success, target running', 'store success, target success, preDeploy running'])
  t.equal(await readFile(path, 'utf8'), '2030-01-01T00:00:01.250Z → prepared the target (1.25s)\n')
})

t.test('a failed step throws the sentence for the record', async t => {
  const { steps, path } = await stepsStage(t)
  await t.rejects(
    steps.run('extract', async () => {
      throw new Error('odd')
    }),
    { name: 'StepFailure', message: deploySays.extractionFailed('odd') }
  )
  t.match(steps.all()[1], { status: 'failed', endedAt: at })
  await rm(path)
  await t.rejects(
    steps.run('postDeploy', async () => 'done'),
    { message: matching(/^/, deploySays.scriptFailed('post-deploy', 'ENOENT')) },
    'an output that cannot be written fails the step'
  )
})

t.test('throws the request to stop, and then runs only the clean-up', async t => {
  const { steps, stopping } = await stepsStage(t)
  const request = new StopRequest('cancel', 'Cancelled by admin')
  await t.rejects(
    steps.run('preDeploy', async () => {
      stopping.abort(request)
      throw new Error('killed')
    }),
    request
  )
  await t.rejects(
    steps.run('extract', async () => 'never'),
    request
  )
  await steps.run('cleanup', async () => 'gone')
  t.strictSame(
    steps.all().map(({ name, status }) => `${name} ${status}`),
    ['store success', 'preDeploy failed', 'cleanup success']
  )
})
