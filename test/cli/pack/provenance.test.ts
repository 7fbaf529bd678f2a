import t from 'tap'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { collectProvenance } from '../../../lib/cli/pack/provenance.js'
import { maxProvenanceBytes, provenanceReader } from '../../../lib/model/provenance.js'
import { findProgram } from '../../support/programs.js'

const skip = findProgram('git') === null && 'git is not on this machine'
const read = provenanceReader('refuse')
const taken = (claim: unknown) => read(JSON.parse(JSON.stringify(claim)), 'provenance')
const sha = 'f'.repeat(40)

t.test('without git, what the CI system says', async t => {
  const env = {
    PATH: t.testdir({}),
    GITHUB_ACTIONS: 'true',
    GITHUB_SHA: sha,
    GITHUB_REF: 'refs/heads/main',
    GITHUB_RUN_NUMBER: '3',
    GITHUB_TOKEN: 'hunter2'
  }
  t.strictSame(await collectProvenance(t.testdirName, env), {
    source: 'cli',
    commit: sha,
    branch: 'main',
    tag: null,
    author: null,
    subject: null,
    dirty: null,
    repository: null,
    ci: { system: 'GitHub Actions', run: '3', url: null, actor: null },
    by: null
  })
})

t.test('hostile values are sent so that the server takes them, and no secret among them', async t => {
  const evil = 'https://bot:hunter2@git.test/shop?token=hunter2'
  const cases: Array<Record<string, string>> = [
    {
      JENKINS_URL: 'x',
      BUILD_NUMBER: '1\n::error::x\u001b[2J',
      BUILD_URL: 'javascript:alert(1)',
      GIT_URL: evil,
      GIT_COMMIT: 'HEAD',
      BRANCH_NAME: '\u202emain'
    },
    {
      JENKINS_URL: 'x',
      BUILD_URL: 'https://bot:hunter2@jenkins.test/1',
      GIT_URL: 'bot:hunter2@git.test:shop',
      BUILD_USER_ID: 'a'.repeat(5000)
    },
    {
      GITLAB_CI: 'true',
      CI_PIPELINE_URL: `https://gitlab.test/${'x'.repeat(3000)}`,
      CI_COMMIT_BRANCH: '字'.repeat(4000),
      GITLAB_USER_LOGIN: '😀'.repeat(4000)
    },
    { DRONE: 'true', DRONE_REPO_LINK: '/home/ci/hunter2', DRONE_BUILD_LINK: 'nothing', DRONE_BRANCH: '  ' }
  ]
  for (const env of cases) {
    const claim = await collectProvenance(t.testdir({}), { PATH: t.testdirName, ...env })
    t.strictSame(taken(claim), claim)
    t.notMatch(JSON.stringify(claim), /hunter2/)
    t.ok(Buffer.byteLength(JSON.stringify(claim)) <= maxProvenanceBytes)
  }
})

t.test('git wins, except for the tag; its remote loses its credentials', { skip }, async t => {
  const directory = t.testdir({})
  const env = { PATH: process.env['PATH'], HOME: directory, GIT_CEILING_DIRECTORIES: join(directory, '..') }
  const git = (...words: string[]): string =>
    execFileSync(
      'git',
      ['-c', 'user.name=Ada\u202e', '-c', 'user.email=a@b.test', '-c', 'commit.gpgsign=false', ...words],
      {
        cwd: directory,
        stdio: ['ignore', 'pipe', 'ignore'],
        env,
        encoding: 'utf8'
      }
    ).trim()
  git('init', '-q', '-b', 'main')
  git('commit', '-q', '--allow-empty', '-m', `Tab\there, \u202eturned ${'x'.repeat(480)}🙂`)
  git('tag', 'v1')
  git('remote', 'add', 'origin', 'https://gitlab-ci-token:hunter2@gitlab.test/team/shop.git')
  const ci = {
    GITLAB_CI: 'true',
    CI_COMMIT_SHA: sha,
    CI_COMMIT_BRANCH: 'other',
    CI_COMMIT_TAG: 'v2',
    CI_PROJECT_URL: 'https://gitlab.test/else',
    CI_JOB_TOKEN: 'hunter2'
  }
  const claim = await collectProvenance(directory, { ...env, ...ci })
  t.match(claim, {
    commit: git('rev-parse', 'HEAD'),
    branch: 'main',
    tag: 'v2',
    author: 'Ada\\u202e',
    dirty: false,
    repository: 'https://gitlab.test/team/shop.git',
    subject: /^Tab\\there, \\u202eturned x+$/
  })
  t.ok((claim.subject ?? '').length <= 500, 'no half a character')
  t.strictSame(taken(claim), claim)
  t.notMatch(JSON.stringify(claim), /hunter2/)
  git('checkout', '-q', '--detach')
  t.match(await collectProvenance(directory, { ...env, ...ci }), { branch: 'other' })
  t.match(await collectProvenance(directory, env), { branch: null, tag: 'v1', ci: null })

  git('config', 'i18n.commitEncoding', 'UTF-8')
  git('-c', `user.name=${'字'.repeat(400)}`, 'commit', '-q', '--allow-empty', '-m', '字'.repeat(900))
  const many = {
    ...ci,
    CI_COMMIT_BRANCH: '字'.repeat(900),
    CI_COMMIT_TAG: '字'.repeat(900),
    GITLAB_USER_LOGIN: '字'.repeat(900),
    CI_PIPELINE_ID: '字'.repeat(900),
    CI_PIPELINE_URL: `https://ci.test/${'x'.repeat(1900)}`
  }
  const long = await collectProvenance(directory, { ...env, ...many })
  t.ok(Buffer.byteLength(JSON.stringify(long)) <= maxProvenanceBytes, 'all of it together is short enough')
  t.strictSame(taken(long), long)
})
