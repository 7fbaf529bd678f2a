import t, { type Test as Tap } from 'tap'
import { writeFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeTestBundle, releaseFiles, releaseTree } from '../../support/bundles.js'
import { svc } from '../../support/svc.js'
import { type Stage, startServer } from '../../support/server.js'
import { makeZip } from '../../support/make-zip.js'
import { aKey, digestOf, signedBy, statementOf } from '../../support/signed-releases.js'

t.test('the first bytes say what a file is, and options of the other kind are refused', async t => {
  const cwd = t.testdir()
  writeTestBundle(join(cwd, 'site.svcb'))
  writeFileSync(join(cwd, 'export.zip'), 'PK\u0003\u0004')
  writeFileSync(join(cwd, 'part.svcb.002'), 'svc-bundle-part 1\n')
  writeFileSync(join(cwd, 'svc.server.json'), '{"format":"svc-server-1"}')
  const rows: Array<[words: string, code: number, says: RegExp]> = [
    ['site.svcb --dry-run', 1, /The project is missing|address is missing|deploy token is missing/],
    ['site.svcb', 1, /Applying a bundle needs a confirmation, but there is no terminal/],
    ['site.svcb --yes --secrets', 2, /--secrets is for the file of a server/],
    ['site.svcb --yes --set-env WORD', 2, /--set-env cannot be "WORD"/],
    ['export.zip --yes', 1, /Cannot read the bundle: it is incomplete/],
    ['part.svcb.002 --yes', 1, /"part\.svcb\.002" is cut off/],
    ['', 1, /Changing the server needs a confirmation/],
    ['--yes --project shop', 2, /--project is for a bundle, and "svc\.server\.json" is none/],
    ['missing.json --yes', 1, /missing\.json/]
  ]
  for (const [words, code, says] of rows) {
    const line = ['apply', ...words.split(' ').filter(Boolean)]
    t.match(await svc(line, { cwd }), { code, stdout: '', stderr: says }, words)
  }
})

/** A server with a project, and a directory with a bundle that was made elsewhere. */
async function stageOf(t: Tap) {
  const stage = await startServer(t)
  const shop = await stage.createProject('shop', { allowedEnv: ['WORD'] } as never)
  const cwd = join(stage.sites, '../inside')
  mkdirSync(cwd)
  const env = { SVC_SERVER_URL: stage.url, SVC_DEPLOY_TOKEN: shop.token as string }
  const run = (line: string, more: Record<string, string> = env) => svc(line.split(' '), { cwd, env: more })
  return { stage, shop, cwd, run, target: (path: string) => join(stage.sites, 'shop', path) }
}

async function deploymentsOf(stage: Stage): Promise<any[]> {
  return (await stage.client.get('/api/logs')).body as any[]
}

t.test('a bundle is planned, then deployed with its scripts, its message and its origin', async t => {
  const { stage, cwd, run, target } = await stageOf(t)
  const provenance = { source: 'cli', commit: 'a'.repeat(40), branch: 'main', subject: 'New prices' }
  writeTestBundle(join(cwd, 'shop.svcb'), {
    more: { 'scripts/post': 'echo "post $WORD"' },
    manifest: about => Object.assign(about, { provenance, env: ['WORD'] })
  })
  // A configuration of another release in this directory is not used.
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: 'proj_other', preDeploy: 'exit 1' }))

  const trial = await run('apply shop.svcb --dry-run')
  t.match(trial, { code: 0, stdout: /Plan for shop[^]*\+ 2 added/ })
  t.match(trial.stderr, /no values of variables\. Give them with --set-env, or to the project: WORD/)
  t.same(await deploymentsOf(stage), [])
  t.match(await run('apply shop.svcb'), { code: 1, stderr: /no terminal to ask on: use --yes/ })
  t.same(await deploymentsOf(stage), [])

  const { code, stdout, stderr } = await run('apply shop.svcb --yes --set-env WORD=hello')
  t.equal(code, 0, stderr)
  t.match(stdout, /\+ 2 added[^]*post hello[^]*✔ success: deployed to proj_/)
  t.equal(readFileSync(target('app.js'), 'utf8'), 'app()')
  const [row] = await deploymentsOf(stage)
  t.match(row, { status: 'success', message: 'New prices', provenance: { commit: 'a'.repeat(40), branch: 'main' } })

  writeFileSync(target('app.js'), 'edited')
  const again = await run('apply shop.svcb --yes --json')
  t.match(JSON.parse(again.stdout), { status: 'success', projectId: row.projectId })
})

t.test('on the machine of the server, its owner needs neither address nor token', async t => {
  const { stage, cwd, run, target } = await stageOf(t)
  writeTestBundle(join(cwd, 'shop.svcb'))
  const { code, stdout, stderr } = await run('apply shop.svcb --yes --receipt r.json', {
    SVC_HOME: stage.home.directory
  })
  t.equal(code, 0, stderr)
  t.ok(existsSync(target('index.html')))
  t.match(readFileSync(join(cwd, 'r.json'), 'utf8'), /^{"payloadType":/)
  t.notMatch(stdout + stderr, /localhost/, 'a page that nobody can open is not named')
})

t.test('what cannot be applied is refused, and nothing is deployed', async t => {
  const { stage, cwd, run, target } = await stageOf(t)
  const rows: Array<[string, Parameters<typeof writeTestBundle>[1], RegExp]> = [
    ['--yes', { manifest: about => (about['minServer'] = '99.0.0') }, /needs svc 99\.0\.0 or later, and the server is/],
    ['--yes', { manifest: about => (about['needs'] = ['teleport']) }, /the server does not know: teleport/],
    ['--yes', { manifest: about => (about['format'] = 2) }, /Update svc on this machine/],
    ['--yes', { manifest: about => (about['tree'].bytes = 9e15) }, /its release has .*, and the server accepts/],
    ['--yes --project other', {}, /other/],
    ['--yes', { more: { 'scripts/pre': 'exit 3' } }, /exit 3|code 3/],
    ['--yes --secrets', {}, /--secrets is for the file of a server/]
  ]
  for (const [options, plan, says] of rows) {
    writeTestBundle(join(cwd, 'shop.svcb'), plan)
    const { code, stdout, stderr } = await run(`apply shop.svcb ${options}`)
    t.not(code, 0, String(says))
    t.match(stdout + stderr, says)
    t.notOk(existsSync(target('app.js')))
  }
  t.same(
    (await deploymentsOf(stage)).map(({ status }) => status),
    ['failed']
  )
})

t.test('a signed bundle is deployed where unsigned releases are refused', async t => {
  const { stage, shop, cwd, run, target } = await stageOf(t)
  const { client } = stage
  const ana = aKey('ana')
  t.match(await client.post('/api/signing-keys', { public: ana.row.public, name: 'ana' }), { status: 200 })
  const policy = { signatures: { require: 'refuse', sbom: 'require' } }
  t.match(await client.put(`/api/projects/${shop.id}`, { ...shop, policy }), { status: 200 })
  const bom = '{"bomFormat":"CycloneDX","components":[{"name":"log4j","version":"2.0"}]}'
  const script = 'echo "post $WORD"'
  const patch = { scripts: { postDeploy: digestOf(script) }, env: ['WORD'], sbomSha256: digestOf(bom) }
  const statementFor = (id: string, more = {}, files = releaseFiles) =>
    signedBy(statementOf(id, files, { ...patch, ...more }), ana)
  const own = statementFor(shop.id)
  const entriesOf = ({ statement, signatures }: typeof own) => ({
    'statement.json': statement,
    ...Object.fromEntries(signatures.map((text, at) => [`signatures/${at + 1}`, text])),
    'sbom.json': bom,
    'scripts/post': script
  })
  const write = (more: Record<string, string>) =>
    writeTestBundle(join(cwd, 'shop.svcb'), {
      more,
      manifest: about => Object.assign(about, { env: ['WORD'], needs: ['signatures'] })
    })
  const { 'sbom.json': _, ...withoutSbom } = entriesOf(own)
  const attacks: Array<[what: string, more: Record<string, string>, says: RegExp]> = [
    ['not signed', {}, /must be signed by 1 key of: ana[^]*Sign it: svc bundle --sign-key/],
    ['no list of components', withoutSbom, /Send it: svc bundle --sbom/],
    [
      'a swapped statement',
      { ...entriesOf(own), 'statement.json': statementFor(shop.id, { sequence: 101 }).statement },
      /is not one of this statement/
    ],
    ['removed signatures', entriesOf({ ...own, signatures: [] }), /only releases that 1 trusted key signed/],
    ['of another project', entriesOf(statementFor('proj_other')), /was signed for project proj_other/],
    [
      'other files',
      entriesOf(statementFor(shop.id, {}, { ...releaseFiles, 'app.js': 'evil' })),
      /files that were signed/
    ],
    ['another script', { ...entriesOf(own), 'scripts/post': 'rm -rf /' }, /postDeploy is not the one that was signed/],
    ['a script more', { ...entriesOf(own), 'scripts/pre': 'true' }, /preDeploy is not the one that was signed/],
    [
      'another list of components',
      { ...entriesOf(own), 'sbom.json': bom.replace('2.0', '2.17') },
      /components is not the one/
    ],
    ['an old statement', entriesOf(statementFor(shop.id, { notAfter: '2026-01-01T00:00:00Z' })), /has expired at 2026/],
    ['of a stranger', entriesOf(signedBy(own.statement, aKey('mallory'))), /is not a trusted key/]
  ]
  for (const [what, more, says] of attacks) {
    write(more)
    const { code, stdout, stderr } = await run('apply shop.svcb --yes --set-env WORD=hello')
    t.equal(code, 1, what)
    t.match(stdout + stderr, says, what)
    t.notOk(existsSync(target('app.js')), what)
  }
  // Each digest of a bundle can be written again, but not the statement.
  const evil = { ...releaseFiles, 'app.js': 'evil!' }
  const archive = makeZip(Object.entries(evil).map(([name, data]) => ({ name, data, mode: 0o100644 })))
  const rewritten = { archive, tree: releaseTree(evil), more: entriesOf(own) }
  writeTestBundle(join(cwd, 'shop.svcb'), { ...rewritten, manifest: about => Object.assign(about, { env: ['WORD'] }) })
  const { stdout: said, stderr: warned } = await run('apply shop.svcb --yes --set-env WORD=hello')
  t.match(said + warned, /does not contain the files that were signed/)
  t.notOk(existsSync(target('app.js')), 'other files with new digests')
  const asOwner = { SVC_HOME: stage.home.directory }
  write({})
  t.match(
    await run('apply shop.svcb --yes', asOwner),
    { code: 1, stderr: /must be signed/ },
    'its owner is no exception'
  )

  write(entriesOf(own))
  t.match(await run('apply shop.svcb --yes'), { code: 1, stderr: /--set-env, as they were signed: WORD/ })
  const { code, stdout, stderr } = await run('apply shop.svcb --yes --set-env WORD=hello')
  t.equal(code, 0, stderr)
  t.match(stdout, /signed by ana \(SHA256:[^]*post hello[^]*✔ success/)
  t.equal(readFileSync(target('app.js'), 'utf8'), 'app()')
  t.match((await deploymentsOf(stage))[0], { signedBy: [{ name: 'ana' }], statement: { sbomSha256: digestOf(bom) } })
  t.match((await client.get('/api/components?name=log4j')).body.components, [{ name: 'log4j', version: '2.0' }])

  write(entriesOf(statementFor(shop.id, { sequence: 200 })))
  t.match(await run('apply shop.svcb --yes --set-env WORD=hello', asOwner), { code: 0 }, 'a later one')
  write(entriesOf(own))
  const replayed = await run('apply shop.svcb --yes --set-env WORD=hello')
  t.match(replayed, { code: 1, stderr: /it was signed earlier/ }, 'the earlier one is a replay now')
})
