import t from 'tap'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { ciFacts, type CiFacts, ciSystems, collectProvenance } from '../../../lib/cli/pack/provenance.js'
import { maxProvenanceBytes, provenanceReader } from '../../../lib/model/provenance.js'
import { findProgram } from '../../support/programs.js'

const skip = findProgram('git') === null && 'git is not on this machine'
const read = provenanceReader('refuse')
const taken = (claim: unknown) => read(JSON.parse(JSON.stringify(claim)), 'provenance')
const sha = 'f'.repeat(40)

t.test('without git, the values of the CI system are used', async t => {
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

t.test('hostile values are cleaned for the server, and no secret is sent', async t => {
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

t.test('git takes precedence except for the tag, and credentials are removed from its remote', { skip }, async t => {
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

/** Tokens that such systems put into the environment of a job; none may be read. */
const secrets = {
  GITHUB_TOKEN: 'hunter2-a',
  ACTIONS_RUNTIME_TOKEN: 'hunter2-b',
  ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'hunter2-c',
  GITEA_TOKEN: 'hunter2-d',
  CI_JOB_TOKEN: 'hunter2-e',
  CI_REPOSITORY_URL: 'https://gitlab-ci-token:hunter2-f@gitlab.test/team/shop.git',
  CI_REGISTRY_PASSWORD: 'hunter2-g',
  CI_NETRC_PASSWORD: 'hunter2-h',
  DRONE_NETRC_PASSWORD: 'hunter2-i',
  SYSTEM_ACCESSTOKEN: 'hunter2-j',
  BITBUCKET_STEP_OIDC_TOKEN: 'hunter2-k',
  CIRCLE_TOKEN: 'hunter2-l',
  BUILDKITE_AGENT_ACCESS_TOKEN: 'hunter2-m',
  TEAMCITY_AUTH_PASSWORD: 'hunter2-n',
  JENKINS_TOKEN: 'hunter2-o',
  SVC_DEPLOY_TOKEN: 'hunter2-p',
  FORGEJO_TOKEN: 'hunter2-q',
  CI_DEPLOY_PASSWORD: 'hunter2-r',
  CIRCLE_OIDC_TOKEN: 'hunter2-s'
}

const commitSha = '0123456789abcdef0123456789abcdef01234567'
const actions = {
  CI: 'true',
  GITHUB_ACTIONS: 'true',
  GITHUB_RUN_NUMBER: '42',
  GITHUB_RUN_ID: '9000',
  GITHUB_RUN_ATTEMPT: '2',
  GITHUB_ACTOR: 'ada',
  GITHUB_TRIGGERING_ACTOR: 'grace',
  GITHUB_SHA: commitSha,
  GITHUB_REF: 'refs/heads/feature/x',
  GITHUB_REF_NAME: 'feature/x',
  GITHUB_REF_TYPE: 'branch',
  GITHUB_SERVER_URL: 'https://github.com',
  GITHUB_REPOSITORY: 'team/shop',
  GITHUB_HEAD_REF: ''
}
const forge = { ...actions, GITHUB_SERVER_URL: 'https://git.test/', GITHUB_RUN_ATTEMPT: '' }
const gitlab = {
  CI: 'true',
  GITLAB_CI: 'true',
  CI_PIPELINE_ID: '77',
  CI_PIPELINE_URL: 'https://gitlab.test/team/shop/-/pipelines/77',
  CI_JOB_URL: 'https://gitlab.test/j/1',
  GITLAB_USER_LOGIN: 'ada',
  GITLAB_USER_NAME: 'Ada',
  GITLAB_USER_EMAIL: 'ada@gitlab.test',
  CI_COMMIT_SHA: commitSha,
  CI_COMMIT_BRANCH: 'main',
  CI_COMMIT_REF_NAME: 'main',
  CI_PROJECT_URL: 'https://gitlab.test/team/shop'
}
const jenkins = {
  JENKINS_URL: 'https://jenkins.test/',
  BUILD_NUMBER: '5',
  BUILD_URL: 'https://jenkins.test/job/shop/5/',
  GIT_COMMIT: commitSha,
  BRANCH_NAME: 'main',
  GIT_BRANCH: 'origin/main',
  GIT_URL: 'https://bot:hunter2@git.test/shop.git'
}

type Case = [what: string, env: Record<string, string>, facts: Partial<CiFacts>]
const cases: Case[] = [
  [
    'GitHub, a branch',
    actions,
    {
      system: 'GitHub Actions',
      run: '42',
      url: 'https://github.com/team/shop/actions/runs/9000/attempts/2',
      actor: 'grace',
      commit: commitSha,
      branch: 'feature/x',
      tag: null,
      repository: 'https://github.com/team/shop'
    }
  ],
  [
    'GitHub, a tag',
    { ...actions, GITHUB_REF: 'refs/tags/v1', GITHUB_REF_TYPE: 'tag', GITHUB_REF_NAME: 'v1' },
    { branch: null, tag: 'v1' }
  ],
  [
    'GitHub, a pull request',
    { ...actions, GITHUB_REF: 'refs/pull/3/merge', GITHUB_HEAD_REF: 'fix' },
    { branch: 'fix', tag: null }
  ],
  [
    'Gitea',
    { ...forge, GITEA_ACTIONS: 'true' },
    { system: 'Gitea Actions', run: '42', url: 'https://git.test/team/shop/actions/runs/42', branch: 'feature/x' }
  ],
  [
    'Forgejo',
    { ...forge, GITEA_ACTIONS: 'true', FORGEJO_ACTIONS: 'true' },
    { system: 'Forgejo Actions', url: 'https://git.test/team/shop/actions/runs/42' }
  ],
  [
    'GitLab, a branch',
    gitlab,
    {
      system: 'GitLab CI',
      run: '77',
      url: 'https://gitlab.test/team/shop/-/pipelines/77',
      actor: 'ada',
      commit: commitSha,
      branch: 'main',
      tag: null,
      repository: 'https://gitlab.test/team/shop'
    }
  ],
  [
    'GitLab, a tag',
    { ...gitlab, CI_COMMIT_BRANCH: '', CI_COMMIT_TAG: 'v1', CI_COMMIT_REF_NAME: 'v1' },
    { branch: null, tag: 'v1' }
  ],
  [
    'GitLab, a merge request',
    { ...gitlab, CI_COMMIT_BRANCH: '', CI_MERGE_REQUEST_SOURCE_BRANCH_NAME: 'fix' },
    { branch: 'fix' }
  ],
  [
    'Woodpecker',
    {
      CI: 'woodpecker',
      DRONE: 'true',
      CI_PIPELINE_NUMBER: '8',
      CI_PIPELINE_URL: 'https://ci.test/repos/1/pipeline/8',
      CI_COMMIT_AUTHOR: 'ada',
      CI_COMMIT_SHA: commitSha,
      CI_COMMIT_BRANCH: 'main',
      CI_COMMIT_REF: 'refs/heads/main',
      CI_REPO_URL: 'https://git.test/team/shop'
    },
    {
      system: 'Woodpecker',
      run: '8',
      url: 'https://ci.test/repos/1/pipeline/8',
      actor: 'ada',
      branch: 'main',
      tag: null,
      repository: 'https://git.test/team/shop'
    }
  ],
  [
    'Drone',
    {
      CI: 'true',
      DRONE: 'true',
      DRONE_BUILD_NUMBER: '9',
      DRONE_BUILD_LINK: 'https://drone.test/team/shop/9',
      DRONE_COMMIT_AUTHOR: 'ada',
      DRONE_COMMIT_SHA: commitSha,
      DRONE_BRANCH: 'main',
      DRONE_TAG: 'v1',
      DRONE_REPO_LINK: 'https://git.test/team/shop'
    },
    { system: 'Drone', run: '9', url: 'https://drone.test/team/shop/9', actor: 'ada', branch: 'main', tag: 'v1' }
  ],
  [
    'Jenkins',
    jenkins,
    {
      system: 'Jenkins',
      run: '5',
      url: 'https://jenkins.test/job/shop/5/',
      actor: null,
      commit: commitSha,
      branch: 'main',
      tag: null
    }
  ],
  [
    'Jenkins, a tag',
    { ...jenkins, BRANCH_NAME: 'v1', TAG_NAME: 'v1', BUILD_USER_ID: 'ada' },
    { branch: null, tag: 'v1', actor: 'ada' }
  ],
  [
    'Azure Pipelines',
    {
      TF_BUILD: 'True',
      BUILD_BUILDNUMBER: '20260101.3',
      BUILD_BUILDID: '311',
      SYSTEM_COLLECTIONURI: 'https://dev.azure.com/team/',
      SYSTEM_TEAMPROJECT: 'My Shop?#',
      BUILD_REQUESTEDFOR: 'Ada',
      BUILD_SOURCEVERSION: commitSha,
      BUILD_SOURCEBRANCH: 'refs/heads/main',
      BUILD_REPOSITORY_URI: 'https://team@dev.azure.com/team/shop/_git/shop'
    },
    {
      system: 'Azure Pipelines',
      run: '20260101.3',
      url: 'https://dev.azure.com/team/My%20Shop%3F%23/_build/results?buildId=311',
      actor: 'Ada',
      branch: 'main',
      tag: null
    }
  ],
  [
    'Bitbucket',
    {
      CI: 'true',
      BITBUCKET_BUILD_NUMBER: '12',
      BITBUCKET_REPO_FULL_NAME: 'team/shop',
      BITBUCKET_COMMIT: commitSha,
      BITBUCKET_BRANCH: 'main',
      BITBUCKET_STEP_TRIGGERER_UUID: '{uuid}'
    },
    {
      system: 'Bitbucket Pipelines',
      run: '12',
      url: 'https://bitbucket.org/team/shop/pipelines/results/12',
      actor: null,
      branch: 'main',
      repository: 'https://bitbucket.org/team/shop'
    }
  ],
  [
    'CircleCI',
    {
      CI: 'true',
      CIRCLECI: 'true',
      CIRCLE_BUILD_NUM: '13',
      CIRCLE_BUILD_URL: 'https://circleci.com/gh/team/shop/13',
      CIRCLE_USERNAME: 'ada',
      CIRCLE_SHA1: commitSha,
      CIRCLE_BRANCH: 'main',
      CIRCLE_REPOSITORY_URL: 'git@github.com:team/shop.git'
    },
    {
      system: 'CircleCI',
      run: '13',
      url: 'https://circleci.com/gh/team/shop/13',
      actor: 'ada',
      branch: 'main',
      repository: 'git@github.com:team/shop.git'
    }
  ],
  [
    'TeamCity',
    {
      TEAMCITY_VERSION: '2025.03',
      BUILD_NUMBER: '14',
      BUILD_VCS_NUMBER: commitSha,
      BUILD_URL: 'https://tc.test/build/14'
    },
    {
      system: 'TeamCity',
      run: '14',
      url: 'https://tc.test/build/14',
      actor: null,
      commit: commitSha,
      branch: null,
      repository: null
    }
  ],
  [
    'Buildkite',
    {
      CI: 'true',
      BUILDKITE: 'true',
      BUILDKITE_BUILD_NUMBER: '15',
      BUILDKITE_BUILD_URL: 'https://buildkite.com/team/shop/builds/15',
      BUILDKITE_BUILD_CREATOR: 'Ada',
      BUILDKITE_COMMIT: commitSha,
      BUILDKITE_BRANCH: 'v1',
      BUILDKITE_TAG: 'v1',
      BUILDKITE_REPO: 'git@git.test:team/shop.git'
    },
    {
      system: 'Buildkite',
      run: '15',
      url: 'https://buildkite.com/team/shop/builds/15',
      actor: 'Ada',
      branch: null,
      tag: 'v1'
    }
  ]
]

t.test('reads the variables of each CI system', async t => {
  for (const [what, env, facts] of cases) {
    const found = ciFacts({ ...secrets, ...env })
    t.match(found, facts, what)
    t.notMatch(JSON.stringify({ ...found, repository: null }), /hunter2/, `${what}: no token`)
  }
  const tried = new Set(cases.map(([, env]) => ciFacts(env)?.system))
  t.strictSame(
    ciSystems.map(({ system }) => system).filter(system => !tried.has(system)),
    [],
    'every row is tried'
  )
})

t.test('reads no variable that may contain a secret', async t => {
  const read = ciSystems
    .flatMap(row => Object.values(row).flat())
    .flatMap(text => [...String(text).matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string))
  t.strictSame(
    read.filter(name => /TOKEN|PASSWORD|SECRET|KEY|NETRC|CREDENTIAL/.test(name) || name in secrets),
    []
  )
})

t.test('returns null without a CI system, and accepts missing variables', async t => {
  t.equal(ciFacts({}), null)
  t.equal(ciFacts({ CI: 'true' }), null)
  t.equal(ciFacts({ GITHUB_ACTIONS: 'false', GITLAB_CI: '', JENKINS_URL: '' }), null)
  t.strictSame(ciFacts({ GITHUB_ACTIONS: 'true', GITHUB_SERVER_URL: 'https://github.com' }), {
    system: 'GitHub Actions',
    run: null,
    url: null,
    actor: null,
    commit: null,
    branch: null,
    tag: null,
    repository: null
  })
})
