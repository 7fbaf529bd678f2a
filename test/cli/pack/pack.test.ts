import t, { type Test } from 'tap'
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { chmod, readFile, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { readName } from '../../../lib/core/archive/names.js'
import type { Refusal } from '../../../lib/base/errors.js'
import { pack, type PackOptions, packProject, removeOldPacks } from '../../../lib/cli/pack/pack.js'
import { Interrupted } from '../../../lib/cli/terminal/prompt.js'
import { smallDisk } from '../../support/small-disk.js'
import { packingStage } from '../../support/packing.js'

const run = promisify(execFile)
const noUnzip = await run('unzip', ['-v']).then(
  () => false,
  () => 'unzip is not on this machine'
)
const isWindows = process.platform === 'win32'

function options(cwd: string, more: Partial<PackOptions> = {}): PackOptions {
  return { cwd, outputDir: './', files: [], ignore: { builtin: true, project: [], cli: [] }, ...more }
}

async function names(path: string): Promise<string[]> {
  return (await run('unzip', ['-Z1', path])).stdout.split('\n').filter(line => line !== '')
}

async function packed(cwd: string, more: Partial<PackOptions> = {}): Promise<string[]> {
  const archive = await pack(options(cwd, more))
  try {
    return await names(archive.path)
  } finally {
    await archive.discard()
  }
}

function leftovers(): string[] {
  return readdirSync(tmpdir()).filter(name => name.startsWith('svc-pack-'))
}

const site = {
  'svc.config.json': '{}',
  '.env': 'SECRET',
  src: { 'a.ts': '' },
  dist: {
    'index.html': 'hello',
    '.htaccess': '',
    'app.js': 'x'.repeat(5000),
    'app.js.map': '{}',
    'debug.log': '',
    '.env.production': '',
    assets: { 'a.css': '', 'b.css': '', img: { 'x.png': '' } },
    node_modules: { m: { 'm.js': '' } },
    empty: {}
  }
}

t.test('packs the selected files', { skip: noUnzip }, async t => {
  const cwd = t.testdir(site)
  const everything = [
    '.htaccess',
    'app.js',
    'app.js.map',
    'assets/a.css',
    'assets/b.css',
    'assets/img/x.png',
    'empty/',
    'index.html'
  ]
  const table: Array<[what: string, more: Partial<PackOptions>, names: string[]]> = [
    ['everything under outputDir', {}, everything],
    ['the same, written otherwise', { outputDir: './dist/' }, everything],
    ['a glob of everything is filtered', { files: ['**/*'] }, everything],
    ['a glob of the first level means what is below it too', { files: ['*'] }, everything],
    [
      'the project’s ignore',
      { ignore: { builtin: true, project: ['*.map', 'assets'], cli: [] } },
      ['.htaccess', 'app.js', 'empty/', 'index.html']
    ],
    [
      '--ignore over it',
      { files: ['**/*.map'], ignore: { builtin: true, project: ['*.map'], cli: ['!app.js.map'] } },
      ['app.js.map']
    ],
    ['ignoreBuiltin', { files: ['*.log', '.env*'], ignore: { builtin: false, project: [], cli: [] } }, ['debug.log']],
    ['a named file, although a rule would leave it out', { files: ['debug.log'] }, ['debug.log']],
    [
      'a named directory as it stands',
      { files: ['node_modules', './assets/'] },
      ['node_modules/m/m.js', 'assets/a.css', 'assets/b.css', 'assets/img/x.png']
    ],
    [
      'named ones and globs, each once',
      { files: ['index.html', '*.html', 'assets/*.css', '.env.production'] },
      ['index.html', '.env.production', 'assets/a.css', 'assets/b.css']
    ],
    [
      'a project’s rule does not touch a named file',
      { files: ['app.js'], ignore: { builtin: true, project: ['*'], cli: ['*'] } },
      ['app.js']
    ]
  ]
  for (const [what, more, expected] of table) {
    t.strictSame(await packed(cwd, { outputDir: 'dist', ...more }), expected, what)
  }
  t.strictSame(await packed(cwd, { outputDir: join(cwd, 'src') }), ['a.ts'], 'an absolute outputDir')
})

t.test('settings and secrets are packed only if files names them', { skip: noUnzip }, async t => {
  const cwd = t.testdir({
    'index.html': '',
    'svc.config.json': '{}',
    'svc.config.live.json': '{}',
    '.env': '',
    '.env.local': '',
    'my.env': '',
    'svc.config.json.0123456789ab.tmp': '{}',
    '.env.local.0123456789ab.tmp': '',
    sub: { '.env.production': '', 'svc.config.json': '{}', 'a.js': '' },
    '.env.d': { a: '' }
  })
  const builtin = { builtin: true, project: [], cli: [] }
  const taken = {
    builtin: false,
    project: ['!.env*', '!svc.config*.json'],
    cli: ['!/.env', '!sub/.env.production', '!.env.d/**']
  }
  for (const outputDir of ['./', cwd]) {
    for (const ignore of [builtin, taken]) {
      for (const files of [[], ['**/*'], ['*', '.env*', '**/svc.config*.json', '.env.d/*']]) {
        t.strictSame(
          await packed(cwd, { outputDir, files, ignore }),
          ['index.html', 'my.env', 'sub/a.js'],
          `${outputDir} ${files}`
        )
      }
    }
  }
  t.strictSame(
    await packed(cwd, { files: ['svc.config.json', '.env.local', 'sub/.env.production', '.env.d'], outputDir: './' }),
    ['svc.config.json', '.env.local', 'sub/.env.production', '.env.d/a']
  )
  const { warnings, discard } = await pack({ cwd, outputDir: './', files: [], ignore: taken })
  t.equal(warnings.length, 5)
  t.match(warnings[0], /^"!\.env\*" in ignore has no effect/)
  await discard()
})

t.test('a file name that looks like a glob is taken literally', { skip: noUnzip || isWindows }, async t => {
  const cwd = t.testdir({ '[id].js': '', 'i.js': '' })
  t.strictSame(await packed(cwd, { files: ['[id].js'] }), ['[id].js'])
  t.strictSame(await packed(cwd, { files: ['[ij].js'] }), ['i.js'])
})

t.test('refuses an empty selection and names the patterns', async t => {
  const cwd = t.testdir({ ...site, none: {}, outside: '' })
  const before = leftovers()
  if (!isWindows) symlinkSync('../src', join(cwd, 'dist/leaving'))
  const table: Array<[more: Partial<PackOptions>, code: string, sentence: RegExp]> = [
    [
      { outputDir: 'build' },
      'no_output_dir',
      /^Cannot pack "build": directory not found: ".*build"\. Build the project first, or set outputDir$/
    ],
    [{ outputDir: 'outside' }, 'no_output_dir', /it is not a directory/],
    [
      { outputDir: 'none' },
      'nothing_to_pack',
      /^Nothing to pack: after the ignore rules, there are no files below ".*none"$/
    ],
    [
      { files: ['*.php', 'x/**'] },
      'nothing_to_pack',
      /there are no files matching "\*\.php", "x\/\*\*" below ".*dist"$/
    ],
    [{ files: ['empty'] }, 'nothing_to_pack', /"empty"/],
    [
      { files: ['index.html', 'indx.html'] },
      'no_such_file',
      /^Cannot pack "indx\.html" in files: file not found: ".*indx\.html"$/
    ],
    [{ files: ['../src'] }, 'file_outside', /it must be below outputDir/],
    [{ files: ['/etc/passwd'] }, 'file_outside', /it must be below outputDir/],
    [{ files: ['../dist-other/*'] }, 'file_outside', /it must be below outputDir/],
    [{ files: ['!a'] }, 'negated_file', /in "ignore", without the "!"/],
    [{ files: ['{a,b}'.repeat(20)] }, 'glob_too_large', /braces/],
    ...(isWindows
      ? []
      : ([
          [{ files: ['leaving'] }, 'link_leaves_root', /^Cannot pack "leaving": it is a link to "\.\.\/src"/],
          [{ files: ['leaving/a.ts'] }, 'file_outside', /a symbolic link in its path leads out of outputDir/]
        ] as Array<[Partial<PackOptions>, string, RegExp]>))
  ]
  for (const [more, code, message] of table) {
    await t.rejects(pack(options(cwd, { outputDir: 'dist', ...more })), { code, message }, code)
  }
  t.strictSame(
    leftovers()
      .filter(name => !before.includes(name))
      .filter(name => existsSync(join(tmpdir(), name, 'archive.zip.part'))),
    []
  )
})

t.test(
  'names that the server would refuse are refused with its sentence, before anything is packed',
  { skip: isWindows && 'Windows has no such names' },
  async t => {
    const table: Array<[name: string, left: string]> = [
      ['logo\u200b.png', 'logo*'],
      ['gpj\u202e.exe', 'gpj*'],
      ['a\nb', 'a?b'],
      ['a\\b', 'a*'],
      ['sub/a\ufeffx', 'sub']
    ]
    for (const [name, left] of table) {
      const cwd = t.testdir({ 'index.html': 'x', sub: {} })
      writeFileSync(join(cwd, name), '')
      const archivePath = join(cwd, 'out', 'site.zip')
      const { code, message } = refusalOf(name)
      await t.rejects(pack(options(cwd, { archivePath })), { code, message }, JSON.stringify(name))
      t.strictSame(readdirSync(join(cwd, 'out')), [])
      const { files, discard } = await pack(options(cwd, { ignore: { builtin: true, project: [left], cli: [] } }))
      await discard()
      t.equal(files, 1, 'unless it is left out')
    }
    const cwd = t.testdir({ 'index.html': 'x' })
    symlinkSync('a\u200bb', join(cwd, 'link'))
    await t.rejects(pack(options(cwd)), {
      code: 'invisible_character_in_name',
      message: /"link": .* contains the invisible character U\+200B/
    })
    for (let i = 0; i < 14; i++) writeFileSync(join(cwd, `\u200b${String(i).padStart(2, '0')}`), '')
    await t.rejects(pack(options(cwd)), {
      message:
        /^Cannot extract the archive: .*Rename the file\. Other file names that cannot be used: "\ufffd00", .*"\ufffd09", and 4 more$/
    })
    const circle = t.testdir({ 'index.html': 'x' })
    symlinkSync('b', join(circle, 'a'))
    symlinkSync('a', join(circle, 'b'))
    await t.rejects(pack(options(circle)), { code: 'link_loop', message: /"a": its symbolic links form a loop/ })
  }
)

/** The server's. */
function refusalOf(name: string): Refusal {
  try {
    readName(name, { windows: false })
  } catch (error) {
    return error as Refusal
  }
  throw new Error(`The server takes ${JSON.stringify(name)}`)
}

t.test('describes the archive: its path, size and number of files', async t => {
  const cwd = t.testdir(site)
  const seen: Array<[bytes: number, total: number]> = []
  const archive = await pack(
    options(cwd, { outputDir: 'dist', onProgress: ({ bytes, totalBytes }) => seen.push([bytes, totalBytes]) })
  )
  const bytes = await readFile(archive.path)
  t.match(archive, { files: 7, sourceBytes: 5007, bytes: bytes.length, warnings: [] })
  t.equal(archive.sha256, createHash('sha256').update(bytes).digest('hex'))
  t.strictSame(seen.at(-1), [5007, 5007])
  if (!isWindows) t.equal((await stat(archive.path)).mode & 0o777, 0o600, 'it may hold secrets')
  if (!isWindows) t.equal((await stat(dirname(archive.path))).mode & 0o777, 0o700)
  await archive.discard()
  t.notOk(existsSync(dirname(archive.path)))
})

t.test('an archive in the packed directory does not contain itself', { skip: noUnzip }, async t => {
  const cwd = t.testdir({ a: 'x' })
  const archivePath = join(cwd, 'out', 'site.zip')
  for (let round = 0; round < 2; round++) {
    const archive = await pack(options(cwd, { archivePath }))
    t.equal(archive.path.endsWith(join('out', 'site.zip')), true)
    t.strictSame(
      (await names(archivePath)).filter(name => !name.endsWith('/')),
      ['a'],
      `round ${round}`
    )
    await archive.discard()
    t.strictSame(readdirSync(join(cwd, 'out')), ['site.zip'], 'kept, and alone')
  }
  await t.rejects(pack(options(cwd, { archivePath, files: ['none/*'] })), { code: 'nothing_to_pack' })
  t.strictSame(
    await names(archivePath).then(all => all.filter(name => !name.endsWith('/'))),
    ['a'],
    'a failure leaves the old one'
  )
})

t.test('warns about a glob that matches nothing beside matching ones', async t => {
  const archive = await pack(options(t.testdir(site), { outputDir: 'dist', files: ['index.html', '*.php'] }))
  t.strictSame(archive.warnings, ['"*.php" in files matches nothing'])
  await archive.discard()
})

t.test('an abort or an error leaves no file behind', async t => {
  const cwd = t.testdir({ in: {}, out: {} })
  for (let i = 0; i < 40; i++) writeFileSync(join(cwd, 'in', `f${i}`), Buffer.alloc(200_000, i))
  const archivePath = join(cwd, 'out', 'x.zip')
  const reason = new Error('enough')
  const control = new AbortController()
  const aborted = pack(
    options(cwd, { outputDir: 'in', archivePath, signal: control.signal, onProgress: () => control.abort(reason) })
  )
  await t.rejects(aborted, reason)
  await t.rejects(pack(options(cwd, { outputDir: 'in', archivePath, signal: AbortSignal.abort(reason) })), reason)
  t.strictSame(readdirSync(join(cwd, 'out')), [])
})

t.test('names a full disk', async t => {
  const disk = smallDisk(t, 64 * 1024)
  if (disk === null) return
  const cwd = t.testdir({ in: { a: randomBytes(256 * 1024) } })
  await t.rejects(pack(options(cwd, { outputDir: 'in', archivePath: join(disk, 'x.zip') })), {
    code: 'disk_full',
    message: `Cannot write the archive to "${disk}": no space left on device`
  })
  t.strictSame(readdirSync(disk), [])
})

t.test('two that pack to one file at once share nothing, and pack nothing of each other', async t => {
  const others = ['x.zip.part', 'x.zip.other-1-1.part']
  const cwd = t.testdir({ a: 'x', 'x.zip': 'old', ...Object.fromEntries(others.map(name => [name, 'of another'])) })
  const archivePath = join(cwd, 'x.zip')
  const during: string[] = []
  const { path } = await pack(options(cwd, { archivePath, onProgress: () => void during.push(...readdirSync(cwd)) }))
  t.strictSame(await names(path), ['a', 'x.zip.part'], 'which is a file of the user')
  t.notSame([...new Set(during)].sort(), readdirSync(cwd).sort(), 'it is written beside the file')
  for (const name of others) t.equal(readFileSync(join(cwd, name), 'utf8'), 'of another')
})

t.test('keeps executable bits', { skip: noUnzip || isWindows }, async t => {
  const cwd = t.testdir({ 'run.sh': '', 'plain.txt': '' })
  await chmod(join(cwd, 'run.sh'), 0o755)
  const archive = await pack(options(cwd))
  const { stdout } = await run('unzip', ['-Z', archive.path])
  t.match(stdout, /^-rwxr-xr-x.* run\.sh$/m)
  t.match(stdout, /^-rw-r--r--.* plain\.txt$/m)
  await archive.discard()
})

t.test('archives of killed commands are removed after a day; newer ones and those of other users stay', async t => {
  const temporary = t.testdir({
    'svc-pack-old': { 'archive.zip': '' },
    'svc-pack-new': {},
    'other-old': {},
    'svc-pack-file': ''
  })
  const hours = (count: number): number => count * 60 * 60
  const now = Date.now() / 1000
  for (const name of ['svc-pack-old', 'other-old', 'svc-pack-file'])
    utimesSync(join(temporary, name), now - hours(25), now - hours(25))
  utimesSync(join(temporary, 'svc-pack-new'), now - hours(23), now - hours(23))
  await removeOldPacks(temporary, now * 1000)
  t.same(readdirSync(temporary).sort(), ['other-old', 'svc-pack-file', 'svc-pack-new'])
})

const stage = (t: Test, ignore: string[] = []) =>
  packingStage(t, { 'index.html': 'page', 'notes.md': 'notes', 'app.js': 'said' }, { cliIgnore: { value: ignore } })

const signal = new AbortController().signal

t.test('packs the configured files and counts them in the last line', async t => {
  const { context, config, cwd, said } = stage(t, ['*.md'])
  const path = join(cwd, 'out.zip')
  const archive = await packProject(context, config, { path, signal })
  t.equal(archive.files, 2, 'one is left out')
  t.equal(readFileSync(path).readUInt32LE(0), 0x04034b50)
  t.match(said[0], /dist/)
  t.match(said.at(-1), /^end: .*\b2 files\b/)
})

t.test('the caller removes a temporary archive', async t => {
  const { context, config } = stage(t)
  const archive = await packProject(context, config, { signal })
  t.ok(existsSync(archive.path))
  await archive.discard()
  t.notOk(existsSync(archive.path))
})

t.test('an error or an interrupt clears the progress bar, and an interrupt prints a note', async t => {
  const failing = stage(t)
  const limits = { maxUploadBytes: 1, maxExtractedBytes: 1 }
  await t.rejects(packProject(failing.context, failing.config, { limits, signal }), { name: 'Refusal' })
  t.same(failing.said.slice(1), ['clear'])
  const stopped = stage(t)
  const aborted = AbortSignal.abort(new Interrupted())
  await t.rejects(packProject(stopped.context, stopped.config, { signal: aborted }), Interrupted)
  t.match(stopped.said.slice(1), ['clear', /^note: /])
})
