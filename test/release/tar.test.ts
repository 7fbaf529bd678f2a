import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { tarball } from './tar.js'

const long = `${'directory/'.repeat(12)}file-with-a-name.txt`

t.test('tar reads it: contents, modes, order, time, long paths', async t => {
  const directory = t.testdir({ out: {} })
  const entries = [
    { path: long, content: Buffer.from('deep'), isExecutable: false },
    { path: 'bin/run.js', content: Buffer.from('#!/bin/sh\n'), isExecutable: true },
    { path: 'empty', content: Buffer.alloc(0), isExecutable: false },
    { path: 'block', content: Buffer.alloc(512, 'x'), isExecutable: false }
  ]
  const archive = join(directory, 'made.tgz')
  writeFileSync(archive, tarball(entries, 1_700_000_000))
  const listed = execFileSync('tar', ['--utc', '-tvzf', archive], { encoding: 'utf8' })
  t.match(listed, /-rwxr-xr-x 0\/0 +10 2023-11-14 22:13 bin\/run\.js/)
  t.match(listed, /-rw-r--r-- 0\/0 +512 2023-11-14 22:13 block/)
  t.same(
    listed
      .trim()
      .split('\n')
      .map(line => line.split(' ').at(-1)),
    ['bin/run.js', 'block', long, 'empty']
  )
  execFileSync('tar', ['-xzf', archive, '-C', join(directory, 'out')])
  t.equal(execFileSync('cat', [join(directory, 'out', long)], { encoding: 'utf8' }), 'deep')
})

t.test('the order in which the files come changes nothing', async t => {
  const [one, two] = ['a', 'b'].map(path => ({ path, content: Buffer.from(path), isExecutable: false }))
  t.ok(one && two && tarball([one, two], 0).equals(tarball([two, one], 0)))
})

t.test('a path that no header holds is refused', async t => {
  const content = Buffer.alloc(0)
  t.throws(() => tarball([{ path: 'x'.repeat(101), content, isExecutable: false }], 0), /too long/)
})
