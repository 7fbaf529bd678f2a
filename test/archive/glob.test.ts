import t from 'tap'
import { compileGlob, isGlob } from '../../lib/archive/glob.js'

t.test('what a glob matches', t => {
  const table: Array<[pattern: string, matching: string[], others: string[]]> = [
    ['a.txt', ['a.txt'], ['b/a.txt', 'a.txtx', 'A.txt', 'aXtxt']],
    ['./a/b', ['a/b'], ['b', 'a']],
    ['*', ['a', '.a', 'a.b'], ['a/b']],
    ['*.js', ['a.js', '.js', 'a.b.js'], ['a.jsx', 'd/a.js', 'js']],
    ['a*b*c', ['abc', 'aXbYc', 'abbcc', 'abcbc'], ['ab', 'acb', 'abcd']],
    ['?', ['a', 'ä', '😀'], ['', 'ab']],
    ['a?c', ['abc', 'a.c'], ['ac', 'a/c']],
    ['[a-c]x', ['ax', 'cx'], ['dx', 'x', '-x']],
    ['[!a-c]x', ['dx', '-x'], ['ax', 'x']],
    ['[^a]', ['b'], ['a']],
    ['[]x]', [']', 'x'], ['[']],
    ['[a-]', ['a', '-'], ['b']],
    ['[ab', ['[ab'], ['a']],
    ['**', ['a', 'a/b', '.a/.b'], []],
    ['**/*', ['a', 'a/b', '.env', 'a/.b/c'], []],
    ['**/*.js', ['a.js', 'a/b.js', 'a/b/c.js'], ['a.jsx']],
    ['dir/**', ['dir/a', 'dir/a/b', 'dir/.a', 'dir'], ['dirx/a', 'x/dir/a']],
    ['a/**/b', ['a/b', 'a/x/b', 'a/x/y/b', 'a/b/b'], ['a/bx', 'b', 'x/a/b']],
    ['**/a/**', ['a', 'a/b', 'x/a', 'x/a/y'], ['xa/b']],
    ['a/*/c', ['a/b/c'], ['a/c', 'a/b/b/c']],
    ['a**b', ['ab', 'axb'], ['a/b']],
    ['{a,b}', ['a', 'b'], ['ab', '{a,b}']],
    ['*.{js,css}', ['x.js', 'x.css'], ['x.html']],
    ['{a,b/c}/d', ['a/d', 'b/c/d'], ['b/d']],
    ['{a,{b,c}d}', ['a', 'bd', 'cd'], ['ad', 'b']],
    ['x{,y}', ['x', 'xy'], ['xyy']],
    ['{a}', ['{a}'], ['a']],
    ['{a,b', ['{a,b'], ['a']],
    ['a,b}', ['a,b}'], ['a']],
    ['{a,b}{c,d}', ['ac', 'bd'], ['ab']],
    ['\\*', ['*'], ['a']],
    ['\\{a,b}', ['{a,b}'], ['a']],
    ['a\\[b]', ['a[b]'], ['ab']],
    ['(a|b)+.$^', ['(a|b)+.$^'], ['a', 'ab']],
    ['', [], ['a']],
    ['a//b/', ['a/b'], []]
  ]
  for (const [pattern, matching, others] of table) {
    const glob = compileGlob(pattern)
    for (const path of matching) t.ok(glob.matches(path), `${pattern} matches ${path}`)
    for (const path of others) t.notOk(glob.matches(path), `${pattern} does not match ${path}`)
  }
  t.end()
})

t.test('which directories may hold a match', t => {
  const table: Array<[pattern: string, open: string[], closed: string[]]> = [
    ['a/b/*.js', ['', 'a', 'a/b'], ['b', 'a/c', 'a/b/c']],
    ['*.js', [''], ['a']],
    ['**/x', ['', 'a', 'a/b'], []],
    ['a/**', ['', 'a', 'a/b/c'], ['b']],
    ['{a,b/c}/x', ['', 'a', 'b', 'b/c'], ['c', 'a/c']]
  ]
  for (const [pattern, open, closed] of table) {
    const glob = compileGlob(pattern)
    for (const directory of open) t.ok(glob.mayMatchBelow(directory), `${pattern} below "${directory}"`)
    for (const directory of closed) t.notOk(glob.mayMatchBelow(directory), `${pattern} not below "${directory}"`)
  }
  t.end()
})

t.test('hostile patterns cost little', t => {
  // What tries every way, or opens every brace, does not end while the test may run.
  t.notOk(compileGlob('*a'.repeat(500) + 'b').matches('a'.repeat(1000)))
  t.notOk(compileGlob('**/a/'.repeat(100) + 'b').matches('a/'.repeat(500) + 'c'))
  t.notOk(compileGlob('?*'.repeat(300)).matches('a'.repeat(299)))
  t.notOk(compileGlob('{'.repeat(50_000)).matches('a'))
  t.notOk(compileGlob('['.repeat(50_000)).matches('a'))
  t.throws(() => compileGlob('{a,b}'.repeat(30)), { code: 'glob_too_large' })
  t.throws(() => compileGlob(`{${','.repeat(100_000)}}`), { code: 'glob_too_large' })
  t.end()
})

t.test('what is a glob', t => {
  for (const text of ['*', 'a/**', 'a?', '[ab]', '{a,b}', 'a\\b']) t.ok(isGlob(text), text)
  for (const text of ['a', 'a/b.c', '{a}', '[', 'a]b', '!a']) t.notOk(isGlob(text), text)
  t.end()
})
