import t, { type Test as Tap } from 'tap'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, truncateSync, writeFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { svc } from '../../support/svc.js'
import { openArchive } from '../../../lib/core/archive/read.js'

const config = { projectId: 'proj_1', outputDir: 'dist', env: { API_URL: 'https://secret.example.org' } }
const project = {
  'svc.config.json': JSON.stringify(config),
  dist: { 'index.html': '<h1>', assets: { 'app.js': 'app()'.repeat(100) } }
}

function commandsIn(t: Tap) {
  const cwd = t.testdir(project)
  return { cwd, run: (line: string) => svc(line.split(' '), { cwd }) }
}

t.test('bundle writes what push would send, verify checks it, and show says what it is', async t => {
  const { cwd, run } = commandsIn(t)
  const { code, stdout, stderr } = await run('bundle --file shop.svcb --project shop -m Prices --post restart --json')
  t.equal(code, 0, stderr)
  t.match(stderr, /Bundled tree [0-9a-f]{4}….{4} \(2 files\)/)
  const written = JSON.parse(stdout)
  const bytes = readFileSync(join(cwd, 'shop.svcb'))
  t.match(written, { paths: [join(cwd, 'shop.svcb')], files: 2, bytes: bytes.length })
  t.equal(written.sha256, createHash('sha256').update(bytes).digest('hex'))
  t.notMatch(bytes.toString('latin1'), /secret\.example/, 'values of variables are not part of it')

  const tree: string = written.treeSha256
  const whole = `shop.svcb is whole: tree ${tree.slice(0, 4)}…${tree.slice(-4)} (2 files), not signed\n`
  t.match(await run('bundle verify shop.svcb'), { code: 0, stdout: whole })
  t.match(JSON.parse((await run('bundle verify shop.svcb --json')).stdout), { ok: true, treeSha256: tree, files: 2 })
  const shown = (await run('bundle show shop.svcb')).stdout
  for (const says of [/^Project: +shop$/m, /^Message: +Prices$/m, /^Scripts: +post$/m, /^Variables: +API_URL$/m])
    t.match(shown, says)
  t.match(JSON.parse((await run('bundle show shop.svcb --json')).stdout), { project: 'shop', env: ['API_URL'] })
})

t.test('a bundle is signed for a project, and verified without a server', async t => {
  const keys = t.testdir({ keys: {}, shop: project })
  const cwd = join(keys, 'shop')
  const run = (line: string) => svc(line.split(' '), { cwd })
  await run('keys generate ../keys/ana')
  await run('keys generate ../keys/bo')
  const bom = '{"bomFormat":"CycloneDX"}'
  writeFileSync(join(cwd, 'bom.json'), bom)
  const sign =
    'bundle --file a.svcb --sign-key ../keys/ana --sign-key ../keys/bo --sign-for proj_2 --sbom bom.json --post ls'
  const made = await run(sign)
  t.match(made, { code: 0, stderr: /Signed tree [0-9a-f]{4}…[0-9a-f]{2} \(2 files\) as ana SHA256:[^]*as bo SHA256:/ })
  t.match(await run('bundle show a.svcb'), { stdout: /Signatures: +2\nSBOM: +yes\nServer: .* with signatures/ })
  t.match(await run('bundle verify a.svcb'), { code: 0, stdout: /, with 2 signatures that nobody has checked/ })
  t.match(JSON.parse((await run('bundle verify a.svcb --json')).stdout), { signatures: 2, signedBy: null })
  const verified = await run('bundle verify a.svcb --keys ../keys/ana.pub')
  t.match(verified, { code: 0, stdout: /signed by ana.pub \(SHA256:\S+\) for proj_1, proj_2, until 20/ })
  t.match(verified.stderr, /Also signed by keys that --keys does not name: SHA256:/)
  await run('keys generate ../keys/mallory')
  t.match(await run('bundle verify a.svcb --keys ../keys/mallory.pub'), { code: 1, stderr: /not among the keys/ })
  t.match(await run('bundle verify a.svcb --keys ../keys/none'), { code: 2, stderr: /Cannot read the keys/ })
  t.match(await run('bundle --file b.svcb --project Shop --sign-key ../keys/ana'), {
    code: 2,
    stderr: /"Shop" is a name/
  })
  writeFileSync(join(cwd, 'bom.json'), '{}')
  t.match(await run('bundle --file b.svcb --sbom bom.json'), {
    code: 1,
    stderr: /neither CycloneDX nor SPDX|CycloneDX/
  })
  t.same(
    readdirSync(cwd).filter(name => name.endsWith('.svcb')),
    ['a.svcb']
  )
})

t.test('the same files give the same bundle', async t => {
  const { cwd, run } = commandsIn(t)
  await run('bundle --file a.svcb')
  await run('bundle --file b.svcb')
  t.ok(readFileSync(join(cwd, 'a.svcb')).equals(readFileSync(join(cwd, 'b.svcb'))))
})

t.test('parts are checked together, and the one that is wrong is named', async t => {
  const { cwd, run } = commandsIn(t)
  const noise = Buffer.concat(Array.from({ length: 5000 }, (_, at) => createHash('sha256').update(`${at}`).digest()))
  writeFileSync(join(cwd, 'dist/noise.bin'), noise)
  t.match(await run('bundle --file shop.svcb --split 65K'), { code: 0, stderr: /in 3 parts/ })
  const parts = readdirSync(cwd).filter(name => name.startsWith('shop.svcb'))
  t.same(parts, ['shop.svcb.001', 'shop.svcb.002', 'shop.svcb.003'])
  t.match(await run('bundle verify shop.svcb.001'), { code: 0, stdout: /is whole/ })
  t.match(await run('bundle show shop.svcb.002'), { code: 0, stdout: /in 3 parts/ })
  truncateSync(join(cwd, 'shop.svcb.002'), 1000)
  t.match(await run('bundle verify shop.svcb.001'), { code: 1, stdout: '', stderr: /"shop\.svcb\.002" is cut off/ })
})

t.test('options that cannot be are refused before anything is packed', async t => {
  const { cwd, run } = commandsIn(t)
  writeFileSync(join(cwd, 'old.svcb'), '')
  const wrong: Array<[string, number, RegExp]> = [
    ['bundle --out shop.svcb', 2, /--out names the directory to pack\. Write the bundle to --file shop\.svcb/],
    ['bundle --split 4', 2, /--split cannot be "4": it must be a size above 64K, like 700M or 4G/],
    ['bundle --split 1K', 2, /above 64K/],
    ['bundle --file old.svcb', 1, /"old\.svcb" exists/],
    ['bundle verify', 2, /file/],
    ['bundle verify missing.svcb', 1, /missing\.svcb/],
    ['bundle verify svc.config.json', 1, /"svc\.config\.json" is neither a zip nor a part of a bundle/]
  ]
  for (const [line, code, says] of wrong) t.match(await run(line), { code, stdout: '', stderr: says }, line)
})

const projectOfBuild = {
  'svc.config.json': JSON.stringify({ projectId: 'proj_1', outputDir: 'dist', ignore: ['*.map'] }),
  dist: { 'index.html': '<h1>', 'app.js.map': '{}', 'debug.log': '', assets: { 'app.js': 'app()' } },
  public: { 'other.txt': 'other' }
}

async function namesIn(path: string): Promise<string[]> {
  const archive = await openArchive(path, { maxEntries: 100, maxExtractedBytes: 1024 * 1024 })
  try {
    return archive.entries
      .filter(entry => entry.kind === 'file')
      .map(entry => entry.path)
      .sort()
  } finally {
    archive.close()
  }
}

t.test('build packs what push would upload, without a server', async t => {
  const cwd = t.testdir(projectOfBuild)
  const { code, stdout, stderr } = await svc(['build'], { cwd })
  t.equal(code, 0)
  t.equal(stdout, `${join(cwd, '.deploy-archive.zip')}\n`)
  t.match(stderr, /^Packing dist…\nPacked 2 files, /)
  t.same(await namesIn(join(cwd, '.deploy-archive.zip')), ['assets/app.js', 'index.html'])
})

t.test('build packs nothing by a file with a key that is unknown or wrong, and names the key', async t => {
  const config = { projectId: 'proj_1' }
  const unknown = t.testdir({ ...projectOfBuild, 'svc.config.json': JSON.stringify({ ...config, outDir: 'dist' }) })
  t.match(await svc(['build'], { cwd: unknown }), {
    code: 1,
    stderr: /unknown key "outDir"\nerror: Cannot pack: ".*svc\.config\.json" has unknown keys/
  })
  t.notOk(existsSync(join(unknown, '.deploy-archive.zip')))
  const wrong = t.testdir({ ...projectOfBuild, 'svc.config.json': JSON.stringify({ ...config, env: ['A=1'] }) })
  t.match(await svc(['build'], { cwd: wrong }), { code: 1, stderr: /svc\.config\.json: "env" is a list/ }, 'not --env')
})

t.test('--list-ignored prints what the rules leave out, also if nothing is left', async t => {
  const cwd = t.testdir({
    ...projectOfBuild,
    dist: { ...projectOfBuild.dist, vendor: { a: { '.git': { config: 'token' } } } }
  })
  const left = ['app.js.map', 'debug.log', 'vendor/a/.git/'].map(path => `Left out: ${path}\n`).join('')
  const { stderr } = await svc(['build', '--list-ignored'], { cwd })
  t.ok(stderr.startsWith(left), stderr)
  const nothing = await svc(['build', '--list-ignored', '--ignore', '**'], { cwd })
  t.match(nothing, { code: 1, stderr: /^Left out: app\.js\.map\n[^]*Nothing to pack/ })
})

t.test('build --file, --out and --json', async t => {
  const cwd = t.testdir(projectOfBuild)
  const { stdout } = await svc(['build', '--out', 'public', '--file', 'out/site.zip', '--json'], { cwd })
  const path = join(cwd, 'out/site.zip')
  const bytes = readFileSync(path)
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  t.same(JSON.parse(stdout), { path, bytes: bytes.length, files: 1, sha256 })
  t.same(await namesIn(path), ['other.txt'])
})

t.test('--ignore accepts a comma-separated list and can be repeated', async t => {
  const cwd = t.testdir({
    'svc.config.json': JSON.stringify({ projectId: 'proj_1' }),
    'a.map': '',
    'b.txt': '',
    'c.md': '',
    'd,e.js': '',
    'f.js': ''
  })
  const { stdout, code } = await svc(['build', '--json', '--ignore', '*.{map,txt}, c.md', '--ignore', 'd\\,e.js'], {
    cwd
  })
  t.equal(code, 0)
  t.same(await namesIn((JSON.parse(stdout) as { path: string }).path), ['f.js'])
})

t.test('build without matching files leaves no file and gives the reason', async t => {
  const cwd = t.testdir(projectOfBuild)
  t.match(await svc(['build', '--ignore', '**'], { cwd }), {
    code: 1,
    stdout: '',
    stderr: /^error: Nothing to pack/m
  })
  t.match(await svc(['build', '--out', 'nowhere'], { cwd }), {
    code: 1,
    stderr: /^error: Cannot pack "nowhere"/m
  })
  t.same(
    readdirSync(cwd).filter(name => name.startsWith('.deploy')),
    []
  )
  t.notOk(existsSync(join(cwd, 'nowhere')))
})
