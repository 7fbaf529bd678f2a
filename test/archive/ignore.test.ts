import t from 'tap'
import { createIgnore, rootVerdict, type IgnoreRules } from '../../lib/archive/ignore.js'

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
