import t from 'tap'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { openArchive } from '../../../lib/core/archive/read.js'
import { svc } from '../../support/svc.js'

const project = {
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
  const cwd = t.testdir(project)
  const { code, stdout, stderr } = await svc(['build'], { cwd })
  t.equal(code, 0)
  t.equal(stdout, `${join(cwd, '.deploy-archive.zip')}\n`)
  t.match(stderr, /^Packing dist…\nPacked 2 files, /)
  t.same(await namesIn(join(cwd, '.deploy-archive.zip')), ['assets/app.js', 'index.html'])
})

t.test('build packs nothing by a file with a key that is unknown or wrong, and names the key', async t => {
  const config = { projectId: 'proj_1' }
  const unknown = t.testdir({ ...project, 'svc.config.json': JSON.stringify({ ...config, outDir: 'dist' }) })
  t.match(await svc(['build'], { cwd: unknown }), {
    code: 1,
    stderr: /unknown key "outDir"\nerror: Cannot pack: ".*svc\.config\.json" has unknown keys/
  })
  t.notOk(existsSync(join(unknown, '.deploy-archive.zip')))
  const wrong = t.testdir({ ...project, 'svc.config.json': JSON.stringify({ ...config, env: ['A=1'] }) })
  t.match(await svc(['build'], { cwd: wrong }), { code: 1, stderr: /svc\.config\.json: "env" is a list/ }, 'not --env')
})

t.test('--list-ignored prints what the rules leave out, also if nothing is left', async t => {
  const cwd = t.testdir({ ...project, dist: { ...project.dist, vendor: { a: { '.git': { config: 'token' } } } } })
  const left = ['app.js.map', 'debug.log', 'vendor/a/.git/'].map(path => `Left out: ${path}\n`).join('')
  const { stderr } = await svc(['build', '--list-ignored'], { cwd })
  t.ok(stderr.startsWith(left), stderr)
  const nothing = await svc(['build', '--list-ignored', '--ignore', '**'], { cwd })
  t.match(nothing, { code: 1, stderr: /^Left out: app\.js\.map\n[^]*Nothing to pack/ })
})

t.test('build --file, --out and --json', async t => {
  const cwd = t.testdir(project)
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
  const cwd = t.testdir(project)
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
