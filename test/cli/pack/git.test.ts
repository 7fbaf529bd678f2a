import t, { type Test } from 'tap'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readGit } from '../../../lib/cli/pack/git.js'
import { findProgram } from '../../support/programs.js'

const skip = findProgram('git') === null && 'git is not on this machine'
const nothing = { commit: null, branch: null, tag: null, author: null, subject: null, dirty: null, repository: null }

function repository(t: Test) {
  const directory = t.testdir({ 'index.html': 'one' })
  const env = {
    PATH: process.env['PATH'],
    HOME: directory,
    GIT_CEILING_DIRECTORIES: join(directory, '..'),
    GIT_CONFIG_NOSYSTEM: '1'
  }
  const git = (...words: string[]): string =>
    execFileSync(
      'git',
      ['-c', 'user.name=Ada Lövelace', '-c', 'user.email=ada@secret.test', '-c', 'commit.gpgsign=false', ...words],
      {
        cwd: directory,
        stdio: ['ignore', 'pipe', 'ignore'],
        env,
        encoding: 'utf8'
      }
    ).trim()
  return { directory, env, git, read: (cwd = directory) => readGit(cwd, env) }
}

t.test('returns null without git and without a repository', { skip }, async t => {
  const { directory, env, read } = repository(t)
  t.strictSame(await readGit(directory, { ...env, PATH: directory }), nothing)
  t.strictSame(await read(), nothing)
  t.strictSame(await readGit(join(directory, 'gone'), env), nothing)
})

t.test('reads commit, branch, tag, author, subject, changes and remote', { skip }, async t => {
  const { directory, git, read } = repository(t)
  git('init', '-q', '-b', 'feature/prices,2')
  t.match(await read(), { commit: null, branch: null, dirty: null }, 'before the first commit')
  git('add', 'index.html')
  git('commit', '-q', '-m', 'Die Überschrift\n\nMore of it.')
  const commit = git('rev-parse', 'HEAD')
  const clean = {
    ...nothing,
    commit,
    branch: 'feature/prices,2',
    author: 'Ada Lövelace',
    subject: 'Die Überschrift',
    dirty: false
  }
  t.strictSame(await read(), clean)
  mkdirSync(join(directory, 'dist'))
  writeFileSync(join(directory, 'dist/new.txt'), 'untracked')
  t.strictSame(
    await read(join(directory, 'dist')),
    clean,
    'in a directory below; files that git does not track do not count'
  )
  writeFileSync(join(directory, 'index.html'), 'two')
  t.match(await read(), { dirty: true })
  git('checkout', '-q', 'index.html')

  git('tag', '-a', 'v1.0', '-m', 'first')
  git('remote', 'add', 'upstream', 'https://git.test/up')
  t.match(await read(), { tag: 'v1.0', repository: 'https://git.test/up' })
  git('remote', 'add', 'origin', 'https://user:hunter2@git.test/shop')
  t.match(await read(), { repository: 'https://user:hunter2@git.test/shop' }, 'as it is configured')
  git('checkout', '-q', '--detach')
  t.match(await read(), { commit, branch: null, tag: 'v1.0' }, 'a detached HEAD, as CI systems have it')
})

t.test('the configuration of a repository changes nothing and runs no program', { skip }, async t => {
  const { directory, git, read } = repository(t)
  const trap = join(directory, 'trap')
  git('init', '-q', '-b', 'main')
  git('commit', '-q', '--allow-empty', '-m', 'One')
  for (const [name, value] of [
    ['core.fsmonitor', `touch ${trap}; false`],
    ['log.showSignature', 'true'],
    ['color.ui', 'always'],
    ['log.excludeDecoration', 'refs/*'],
    ['status.showUntrackedFiles', 'all'],
    ['status.branch', 'true'],
    ['i18n.logOutputEncoding', 'latin1']
  ])
    git('config', name as string, value as string)
  git('commit', '-q', '--allow-empty', '-m', 'Zwölf')
  t.ok(existsSync(trap), 'git itself runs what is configured')
  rmSync(trap)
  t.match(await read(), { branch: 'main', subject: 'Zwölf', dirty: false })
  t.notOk(existsSync(trap))
})
