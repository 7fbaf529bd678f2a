import t from 'tap'
import { setImmediate as turn } from 'node:timers/promises'
import { mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { deployStage } from '../support/deploy-stage.js'

t.test('the six steps, in the order of §3', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    preDeployScript: 'echo "before: $(ls | tr "\\n" " ")"',
    postDeployScript: 'echo "after: $(ls | tr "\\n" " ")"; cat "$SVC_CHANGES"'
  })
  const row = await stage.deploy(project, { 'index.html': 'hello', 'assets/app.js': 'run()' }, { message: 'First' })

  t.match(
    row,
    {
      status: 'success',
      triggerSource: 'cli',
      errorMessage: null,
      fileCount: 2,
      hasArtifact: true,
      message: 'First',
      actorIp: '192.0.2.1'
    }
  )
  t.match(row.duration, /^\d+\.\d\ds$/)
  t.strictSame(row, stage.row(row.id), 'what the run answers is what is recorded')
  t.strictSame(row.steps.map(({ name, status }) => `${name} ${status}`), [
    'store success', 'target success', 'preDeploy success', 'extract success', 'postDeploy success', 'cleanup success'
  ])
  const times = row.steps.flatMap(({ startedAt, endedAt }) => [startedAt, endedAt as string])
  t.strictSame(times, [...times].sort(), 'one after the other')
  t.strictSame(row.steps.map(step => step.exitCode), [undefined, undefined, 0, undefined, 0, undefined])
  t.strictSame(row.scripts.map(({ step, source, async }) => [step, source, async]), [
    ['preDeploy', 'platform', false],
    ['postDeploy', 'platform', false]
  ])
  t.equal(await readFile(join(project.deployPath, 'index.html'), 'utf8'), 'hello')

  const lines = (await stage.output(row.id)).split('\n')
  const places = [
    /^Deployment dep_\w+ of Shop \(production\), started by admin$/,
    /^→ the archive is kept: \d+ B, SHA-256 [0-9a-f]{64} \(\d+\.\d\ds\)$/,
    /^→ the target directory .* is there/,
    /^→ pre-deploy script \(set on the server\)$/,
    /^before: $/,
    /^→ pre-deploy script ended with exit code 0 \(\d+\.\d\ds\)$/,
    /^→ 2 files, 10 B in place, 2 of them new or changed/,
    /^→ post-deploy script \(set on the server\)$/,
    /^after: assets index\.html $/,
    /^assets\/app\.js$/,
    /^index\.html$/,
    /^→ post-deploy script ended with exit code 0/,
    /^→ the temporary zip is removed/,
    /^✓ success in \d+\.\d\ds$/
  ]
  for (const [index, place] of places.entries()) t.match(lines[index], place)
  t.equal(lines.length, places.length + 1)
  t.strictSame(stage.faults, [])
})

t.test('files of the same name are overwritten, others stay', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await mkdir(project.deployPath, { recursive: true })
  await writeFile(join(project.deployPath, 'kept.txt'), 'kept')
  await writeFile(join(project.deployPath, 'old.txt'), 'old')
  const row = await stage.deploy(project, { 'old.txt': 'new' })
  t.equal(row.status, 'success')
  t.strictSame(row.steps.map(step => step.status), ['success', 'success', 'skipped', 'success', 'skipped', 'success'])
  t.equal(await readFile(join(project.deployPath, 'kept.txt'), 'utf8'), 'kept')
  t.equal(await readFile(join(project.deployPath, 'old.txt'), 'utf8'), 'new')
})

t.test('a failed step is the last one but the clean-up, and says why', async t => {
  const cases = [
    {
      what: 'the pre-deploy script',
      patch: { preDeployScript: 'echo no; exit 3' },
      error: 'The pre-deploy script ended with exit code 3',
      steps: ['store success', 'target success', 'preDeploy failed', 'cleanup success'],
      exitCode: 3,
      isExtracted: false
    },
    {
      what: 'the post-deploy script',
      patch: { postDeployScript: 'kill -9 $$' },
      error: 'The post-deploy script was ended by the signal SIGKILL',
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
    t.strictSame(row.steps.map(({ name, status }) => `${name} ${status}`), steps)
    t.equal(row.steps.find(step => step.status === 'failed')?.exitCode, exitCode)
    t.equal(await stat(join(project.deployPath, 'a.txt')).then(() => true, () => false), isExtracted)
    t.match(await stage.output(row.id), new RegExp(`✗ failed after \\d+\\.\\d\\ds: ${error}\n$`))
    t.equal(/stay in place/.test(await stage.output(row.id)), isExtracted)
    t.match(stage.notices, [{ trigger: 'cli', event: 'deploy_failure', errorMessage: error }])
  }
})

t.test('an archive that cannot be extracted leaves the target as it was', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'a.txt': 'a' })
  stage.values.max_extracted_size = 0.00001
  const row = await stage.deploy(project, { 'a.txt': 'b'.repeat(1000), 'b.txt': 'b' })
  t.equal(row.status, 'failed')
  t.match(row.errorMessage, /^Extracting the archive failed: /)
  t.equal(await readFile(join(project.deployPath, 'a.txt'), 'utf8'), 'a')
})

t.test('the journal of another deployment may vanish while it is looked at', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await symlink('nowhere', join(stage.home.deployments, 'dep_aaaaaaaaaaaaaaaa.undo'))
  t.match(await stage.deploy(project, { 'a.txt': '1' }), { status: 'success', errorMessage: null })
})

t.test('a target that is a file is refused by its step', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await mkdir(join(stage.directory, 'targets'), { recursive: true })
  await writeFile(project.deployPath, 'a file')
  const row = await stage.deploy(project, { 'a.txt': 'a' })
  t.match(row, { status: 'failed', errorMessage: /^Preparing the target directory failed: / })
  t.equal(await readFile(project.deployPath, 'utf8'), 'a file')
})

t.test('a list of changes that cannot be written does not keep the post-deploy script from running', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    preDeployScript: `rm -r '${stage.home.tmp}'`,
    postDeployScript: 'set -u; echo "changes [$SVC_CHANGES]"'
  })
  const row = await stage.deploy(project, { 'index.html': 'hello' })
  t.match(row, { status: 'success', placed: 1 })
  t.match(await stage.output(row.id), /→ the list of changes could not be written: the post-deploy script runs without it.*ENOENT[^]*\nchanges \[\]\n/)
})

t.test('what becomes of a deployment afterwards does not change what is live', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': '1' }, { postDeploy: 'exit 1' })
  t.match(first, { status: 'failed', placed: 1 })
  const unplaced = await stage.deploy(project, { 'a.txt': '2' }, { preDeploy: 'exit 1' })
  t.match(unplaced, { status: 'failed', placed: null })
  const run = await stage.push(project, { 'a.txt': '3' }, { postDeploy: 'sleep 60' })
  while (stage.row(run.deployId).steps.at(-1)?.name !== 'postDeploy') await turn()
  t.equal(stage.row(run.deployId).placed, 2, 'at once, not at the end')
  t.match(await stage.deployer.cancel(run.deployId, { name: 'admin', ip: null }), { status: 'failed', placed: 2 })
  await stage.deployer.mark(run.deployId, 'success', { name: 'admin', ip: null })
  t.equal(stage.row(run.deployId).placed, 2)
  const rollback = await stage.deployer.rollback(first.id, { actor: { name: 'admin', ip: null } })
  t.match(await rollback.finished, { status: 'failed', placed: 3 }, 'its script fails as the first time')
})
