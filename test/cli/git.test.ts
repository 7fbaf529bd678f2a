import t from 'tap'
import { execFileSync } from 'node:child_process'
import { commitSubject } from '../../lib/cli/git.js'

t.test('commitSubject', async t => {
  const env = { PATH: process.env['PATH'], HOME: t.testdir({}), GIT_CEILING_DIRECTORIES: process.cwd() }
  t.equal(await commitSubject(t.testdirName, { ...env, PATH: t.testdirName }), undefined, 'without git')
  const git = (...words: string[]) =>
    execFileSync('git', ['-c', 'user.name=A', '-c', 'user.email=a@b.test', ...words], {
      cwd: t.testdirName,
      stdio: 'ignore',
      env
    })
  try {
    git('init', '-q')
  } catch {
    t.comment('skipped: git is not on this machine')
    return
  }
  t.equal(await commitSubject(t.testdirName, env), undefined, 'before the first commit')
  git('commit', '--allow-empty', '-m', 'Die Überschrift\n\nMore of it.')
  t.equal(await commitSubject(t.testdirName, env), 'Die Überschrift')
  git('commit', '--allow-empty', '-m', 'Tab\there, \u202eturned')
  t.equal(await commitSubject(t.testdirName, env), 'Tab\\there, \\u202eturned', 'as the server takes it')
  git('commit', '--allow-empty', '-m', `${'x'.repeat(499)}🙂`)
  t.equal(await commitSubject(t.testdirName, env), 'x'.repeat(499), 'as long as a message may be, no half a character')
})
