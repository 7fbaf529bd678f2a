import t from 'tap'
import { execFileSync } from 'node:child_process'
import { chmodSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sourceChanged } from '../../../lib/core/archive/source.js'
import { createIgnore, type IgnoreRules, rootVerdict, walkTree } from '../../../lib/core/archive/walk.js'
import { compileGlob } from '../../../lib/base/glob.js'

const isWindows = process.platform === 'win32'
const root =
  process.getuid?.() === 0 ? 'root may read everything' : isWindows ? 'Windows has no permission bits' : false

interface Asked {
  start?: string
  ignore?: Partial<IgnoreRules>
  globs?: string[]
  except?: string[]
  warn?: (sentence: string) => void
  signal?: AbortSignal
}

/** The sources that are found: a directory has a slash at its end, a link its text. */
async function walk(
  directory: string,
  { start = '', ignore, globs, except = [], warn = () => {}, signal }: Asked = {}
): Promise<string[]> {
  const found: string[] = []
  const options = {
    root: realpathSync(directory),
    ignore: ignore === undefined ? null : createIgnore({ builtin: false, project: [], cli: [], ...ignore }),
    globs: globs === undefined ? null : globs.map(compileGlob),
    except: (path: string) => except.includes(path),
    warn,
    signal
  }
  await walkTree(start, options, ({ path, kind, source }) => {
    found.push(kind === 'directory' ? `${path}/` : kind === 'symlink' ? `${path} -> ${String(source)}` : path)
  })
  return found
}

t.test('finds everything, sorted by name, including empty directories', async t => {
  const directory = t.testdir({ b: { z: '', a: '', '.dot': '' }, a: '', C: { d: { e: {} } }, '.x': '', 'b.txt': '' })
  t.strictSame(await walk(directory), ['.x', 'C/d/e/', 'a', 'b/.dot', 'b/a', 'b/z', 'b.txt'])
  t.strictSame(await walk(directory, { start: 'b' }), ['b/.dot', 'b/a', 'b/z'])
  t.strictSame(await walk(directory, { start: 'b/a' }), ['b/a'])
  t.strictSame(await walk(directory, { start: 'C/d/e' }), ['C/d/e/'])
  t.strictSame(await walk(directory, { except: [join(realpathSync(directory), 'a')] }), [
    '.x',
    'C/d/e/',
    'b/.dot',
    'b/a',
    'b/z',
    'b.txt'
  ])
})

t.test('the standalone output of Next.js is whole, with its packages, and without settings', async t => {
  const standalone = {
    'server.js': '',
    node_modules: { next: { 'a.js': '' } },
    '.next': { BUILD_ID: '', server: { a: '' } }
  }
  const directory = t.testdir({ node_modules: { x: '' }, '.next': { cache: { y: '' }, standalone } })
  const whole = ['.next/BUILD_ID', '.next/server/a', 'node_modules/next/a.js', 'server.js']
  const root = join(realpathSync(directory), '.next/standalone')
  t.strictSame(await walk(root, { ignore: { builtin: true, root } }), whole, 'as the output directory')
  const found = await walk(directory, { ignore: { builtin: true, project: ['!.next', '.next/cache'] } })
  t.strictSame(
    found,
    whole.map(path => `.next/standalone/${path}`),
    'within the project'
  )
})

t.test('does not open ignored directories', { skip: root }, async t => {
  const directory = t.testdir({ a: '', closed: { b: '' } })
  const closed = join(directory, 'closed')
  chmodSync(closed, 0)
  t.strictSame(await walk(directory, { ignore: { project: ['closed'] } }), ['a'])
  t.strictSame(await walk(directory, { globs: ['a*', 'open/**'] }), ['a'])
  await t.rejects(walk(directory), {
    code: 'file_unreadable',
    message: /^Cannot pack "closed": permission denied/
  })
  chmodSync(closed, 0o755)
})

t.test('applies ignore rules and globs', async t => {
  const directory = t.testdir({
    'index.html': '',
    '.env': '',
    assets: { 'a.js': '', 'a.js.map': '', img: { 'x.png': '' } },
    node_modules: { keep: { 'k.js': '' }, other: { 'o.js': '' } },
    logs: { 'x.log': '' }
  })
  const table: Array<[asked: Asked, found: string[]]> = [
    [{ ignore: { builtin: true } }, ['assets/a.js', 'assets/a.js.map', 'assets/img/x.png', 'index.html', 'logs/']],
    [{ ignore: { builtin: true, project: ['*.map', 'logs'] } }, ['assets/a.js', 'assets/img/x.png', 'index.html']],
    [
      { ignore: { builtin: true, project: ['assets', 'logs'], cli: ['!node_modules/keep/**'] } },
      ['index.html', 'node_modules/keep/k.js']
    ],
    [{ globs: ['assets/*'] }, ['assets/a.js', 'assets/a.js.map', 'assets/img/x.png']],
    [{ globs: ['asset?'], ignore: { project: ['*.map'] } }, ['assets/a.js', 'assets/img/x.png']],
    [{ globs: ['*.html', 'log?'] }, ['index.html', 'logs/x.log']],
    [{ globs: ['**/*.js', '.env'] }, ['.env', 'assets/a.js', 'node_modules/keep/k.js', 'node_modules/other/o.js']],
    [
      { globs: ['**/*'], ignore: { builtin: true } },
      ['assets/a.js', 'assets/a.js.map', 'assets/img/x.png', 'index.html', 'logs/']
    ],
    [{ globs: ['{index,none}.html'] }, ['index.html']],
    [{ globs: ['nothing/**'] }, []]
  ]
  for (const [asked, found] of table) t.strictSame(await walk(directory, asked), found, JSON.stringify(asked))
})

t.test('keeps links within the root, and refuses links that leave it', { skip: isWindows }, async t => {
  const directory = t.testdir({ in: { d: { a: '' } }, out: { secret: '' } })
  const inside = join(directory, 'in')
  symlinkSync('d/a', join(inside, 'file'))
  symlinkSync('d', join(inside, 'directory'))
  symlinkSync('nothing', join(inside, 'dangling'))
  symlinkSync('../d/a', join(inside, 'd/up'))
  t.strictSame(await walk(inside), ['d/a', 'd/up -> ../d/a', 'dangling -> nothing', 'directory -> d', 'file -> d/a'])
  const table: Array<[text: string, what: string]> = [
    ['../out', 'a sibling'],
    ['/etc/passwd', 'absolute'],
    [join(inside, 'd/a'), 'absolute, although inside'],
    ['d/../../out/secret', 'up and over'],
    ['directory/../../out', 'through another link']
  ]
  for (const [text, what] of table) {
    const path = join(inside, 'leaving')
    symlinkSync(text, path)
    await t.rejects(
      walk(inside),
      { code: 'link_leaves_root', message: /^Cannot pack "leaving": it is a link to/ },
      what
    )
    t.ok(await walk(inside, { ignore: { project: ['leaving'] } }), 'an ignored link is accepted')
    execFileSync('rm', [path])
  }
})

t.test('leaves out special files, with a warning', { skip: isWindows }, async t => {
  const directory = t.testdir({ a: '' })
  execFileSync('mkfifo', [join(directory, 'pipe')])
  const warnings: string[] = []
  t.strictSame(await walk(directory, { warn: sentence => warnings.push(sentence) }), ['a'])
  t.strictSame(warnings, ['"pipe" was left out: it is not a file, a directory or a link'])
})

t.test(
  'refuses a name that is not UTF-8',
  { skip: process.platform !== 'linux' && 'only Linux has such names' },
  async t => {
    const directory = t.testdir({})
    writeFileSync(Buffer.concat([Buffer.from(`${directory}/a`), Buffer.from([0xff])]), '')
    await t.rejects(walk(directory), { code: 'name_not_packable', message: /its name is not valid UTF-8/ })
  }
)

t.test(
  'distinguishes a moved directory from a removed one',
  { skip: process.platform !== 'linux' && 'only Linux reports the location' },
  async t => {
    const directory = realpathSync(t.testdir({ real: { sub: { a: '' } } }))
    symlinkSync('real', join(directory, 'link'))
    const options = {
      ignore: null,
      globs: null,
      except: () => false,
      warn: () => {},
      signal: undefined,
      mayBeExchanged: true
    }
    const walking = (name: string): Promise<unknown> =>
      walkTree('', { ...options, root: join(directory, name, 'sub') }, () => {})
    await walking('real')
    const { code } = sourceChanged('')
    await t.rejects(walking('link'), { name: 'Refusal', code })
  }
)

t.test('rejects for a missing start, and on abort', async t => {
  const directory = t.testdir({ a: '' })
  await t.rejects(walk(directory, { start: 'none' }), { code: 'file_vanished' })
  const reason = new Error('enough')
  await t.rejects(walk(directory, { signal: AbortSignal.abort(reason) }), reason)
})

/** The paths of a tree that remain, walked as a packer walks it; a directory has a slash at its end. */
function left(rules: Partial<IgnoreRules>, paths: string[]): string[] {
  const ignore = createIgnore({ builtin: false, project: [], cli: [], ...rules })
  return paths.filter(path => {
    const segments = path.split('/')
    let verdict = rootVerdict
    for (let depth = 1; depth <= segments.length; depth++) {
      const part = segments.slice(0, depth).join('/')
      if (verdict.isIgnored && !ignore.mayReachInto(segments.slice(0, depth - 1).join('/'), verdict)) return false
      verdict = ignore.judge(part, depth < segments.length, verdict)
    }
    return !verdict.isIgnored
  })
}

t.test('applies the built-in rules', t => {
  const out = [
    '.git/HEAD',
    'vendor/a/.git/config',
    'mod/.git',
    '.svn/x',
    'a/.hg/x',
    'node_modules/a/b.js',
    'packages/a/node_modules/b.js',
    '.idea/x',
    'a/.vscode/x',
    '.parcel-cache/x',
    '.nyc_output/x',
    '.tmp/x',
    'a/Thumbs.db',
    'svc-export-20260101.zip',
    '.next/x',
    'a/.next/x',
    '.nuxt/x',
    '.turbo/x',
    '.cache/x',
    '.vite/x',
    'coverage/lcov/x',
    '.DS_Store',
    'a/.DS_Store',
    'npm.log',
    'a/b.log',
    '.env',
    '.env.local',
    'a/.env.production',
    '.deploy-archive.zip'
  ]
  const kept = [
    ...[
      '.gitignore',
      '.htaccess',
      'a.log.txt',
      'environment',
      'log',
      'node_modules.txt',
      'a/gitlab/x',
      'svc-exports/x'
    ],
    ...['.output/server/node_modules/a.js', 'web/.output/server/node_modules/a.js']
  ]
  t.strictSame(left({ builtin: true }, [...out, ...kept]), kept)
  const project = ['a+b', '(x|y)', '\\*star', '*.l$g', '[ab].txt', '{one,two}.js', 'x/y+*', 'd/**/z.?']
  const stays = ['aab', 'x', 'star', 'b.lg', 'c.txt', 'three.js', 'y+1', 'd/a.z']
  const gone = ['a+b', 'd/(x|y)', '*star', 'b.l$g', 'd/a.txt', 'two.js', 'x/y+1', 'd/z.a', 'd/e/z.b']
  t.strictSame(left({ project }, [...gone, ...stays]), stays, 'characters of regular expressions mean themselves')
  t.strictSame(left({ builtin: false }, [...out, ...kept]), [...out, ...kept])
  const ignore = createIgnore({ builtin: true, project: [], cli: [] })
  const verdict = ignore.judge('node_modules', true, rootVerdict)
  t.ok(verdict.isIgnored, 'the directory itself, so that it is not walked')
  t.notOk(ignore.mayReachInto('node_modules', verdict))
  t.end()
})

t.test('a complete build output keeps the packages that it brings along', t => {
  const tree = ['server.js', 'node_modules/next/a.js', '.next/BUILD_ID', 'apps/web/node_modules/b/c.js']
  t.strictSame(left({ builtin: true, root: '/src/shop/.next/standalone' }, [...tree, 'x/.git/config']), tree)
  t.strictSame(left({ builtin: true, root: 'C:\\shop\\.output\\server' }, tree), tree)
  t.strictSame(left({ builtin: true, root: '/src/shop/standalone' }, tree), ['server.js'])
  t.strictSame(left({ builtin: true, root: '/src/.next/standalone', cli: ['node_modules'] }, tree), [
    'server.js',
    '.next/BUILD_ID'
  ])
  t.strictSame(left({ builtin: true, project: ['!.next'] }, ['.next/x', '.next/standalone/node_modules/a.js']), [
    '.next/x',
    '.next/standalone/node_modules/a.js'
  ])
  t.end()
})

t.test('applies the rules of a project', t => {
  const tree = ['a.js', 'a.map', 'src/a.map', 'src/b/c.ts', 'b/src/x', 'tmp', 'x/tmp/y', 'docs/a.md', 'x/docs/a.md']
  const table: Array<[rules: string[], left: string[]]> = [
    [[], tree],
    [['*.map'], ['a.js', 'src/b/c.ts', 'b/src/x', 'tmp', 'x/tmp/y', 'docs/a.md', 'x/docs/a.md']],
    [['/*.map'], ['a.js', 'src/a.map', 'src/b/c.ts', 'b/src/x', 'tmp', 'x/tmp/y', 'docs/a.md', 'x/docs/a.md']],
    [['src'], ['a.js', 'a.map', 'tmp', 'x/tmp/y', 'docs/a.md', 'x/docs/a.md']],
    [['/src'], ['a.js', 'a.map', 'b/src/x', 'tmp', 'x/tmp/y', 'docs/a.md', 'x/docs/a.md']],
    [['tmp/'], ['a.js', 'a.map', 'src/a.map', 'src/b/c.ts', 'b/src/x', 'tmp', 'docs/a.md', 'x/docs/a.md']],
    [['docs/**'], ['a.js', 'a.map', 'src/a.map', 'src/b/c.ts', 'b/src/x', 'tmp', 'x/tmp/y', 'x/docs/a.md']],
    [['**/docs/**'], ['a.js', 'a.map', 'src/a.map', 'src/b/c.ts', 'b/src/x', 'tmp', 'x/tmp/y']],
    [['./a.js', '# src', ''], tree.slice(1)],
    [
      ['*', '!src', '!src/**'],
      ['src/a.map', 'src/b/c.ts']
    ],
    [['*.map', '!src/a.map'], tree.filter(path => path !== 'a.map')]
  ]
  for (const [project, expected] of table) t.strictSame(left({ project }, tree), expected, project.join(' '))
  t.end()
})

t.test('--ignore overrides the rules of the project, which override the built-in ones', t => {
  const table: Array<[rules: Partial<IgnoreRules>, left: string[]]> = [
    [{ project: ['!.env.production'] }, ['.env.production']],
    [{ project: ['!.env*'], cli: ['.env'] }, ['.env.production']],
    [{ project: ['.env'], cli: ['!.env'] }, ['.env']],
    [{ project: ['!node_modules'] }, ['node_modules/a/x', 'node_modules/b/x']],
    [{ project: ['!node_modules/'] }, ['node_modules/a/x', 'node_modules/b/x']],
    [{ project: ['!node_modules/**'] }, ['node_modules/a/x', 'node_modules/b/x']],
    [{ project: ['!node_modules/a/**'] }, ['node_modules/a/x']],
    [{ project: ['!node_modules/*/x'] }, ['node_modules/a/x', 'node_modules/b/x']],
    [{ project: ['!x'] }, []],
    [{ project: ['!**/x'] }, ['node_modules/a/x', 'node_modules/b/x']],
    [{ cli: ['!node_modules/**', 'node_modules/b'] }, ['node_modules/a/x']]
  ]
  const tree = ['.env', '.env.production', 'node_modules/a/x', 'node_modules/a/.env', 'node_modules/b/x']
  for (const [rules, expected] of table) {
    const kept = left({ builtin: true, ...rules }, tree).filter(path => path !== 'node_modules/a/.env')
    t.strictSame(kept, expected, JSON.stringify(rules))
  }
  t.strictSame(
    left({ builtin: true, project: ['!.env'] }, tree),
    ['.env'],
    'a bare name does not reach into a directory that is left out'
  )
  t.end()
})
