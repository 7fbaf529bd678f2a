import { gitlabJobs, jenkinsJobs, woodpeckerJobs, workflowJobs, type Job, type Surroundings } from './jobs.js'

/** A CI system as docs/ci.md describes it: the places of its files, and the environment of a job. */
export interface System {
  /** The file of docs/ci → its place in the repository. */
  files: Record<string, string>
  /** The unpacked client in the repository. */
  client: string
  /** The name of the secret with the token. */
  secret: string
  jobs(around: Surroundings): Job[]
  /** The variables that the system sets, according to its reference. */
  env: Record<string, string>
}

/** The commit of every run. */
export const commit = '8f1d3c2b7a6e5d4c3b2a19080706050403020100'

export const systems: Record<string, System> = {
  'GitHub Actions': {
    files: {
      'github/deploy.yml': '.github/workflows/deploy.yml',
      'github/svc-push/action.yml': '.github/actions/svc-push/action.yml'
    },
    client: '.github/actions/svc-push/client',
    secret: 'SVC_DEPLOY_TOKEN',
    jobs: around => workflowJobs('.github/workflows/deploy.yml', around),
    env: {
      CI: 'true',
      GITHUB_ACTIONS: 'true',
      GITHUB_SHA: commit,
      GITHUB_REF: 'refs/heads/main',
      GITHUB_REF_NAME: 'main',
      GITHUB_REF_TYPE: 'branch',
      GITHUB_SERVER_URL: 'https://github.com',
      GITHUB_REPOSITORY: 'example/shop',
      GITHUB_RUN_ID: '1001',
      GITHUB_RUN_NUMBER: '17',
      GITHUB_ACTOR: 'mona',
      GITHUB_STEP_SUMMARY: '/tmp/summary.md',
      GITHUB_WORKSPACE: '/tmp/work'
    }
  },
  'GitLab CI': {
    files: { 'gitlab/deploy.gitlab-ci.yml': '.gitlab-ci.yml', 'gitlab/svc.gitlab-ci.yml': 'ci/svc.gitlab-ci.yml' },
    client: 'ci/svc',
    secret: 'SVC_DEPLOY_TOKEN',
    jobs: around => gitlabJobs('.gitlab-ci.yml', around),
    env: {
      CI: 'true',
      GITLAB_CI: 'true',
      CI_PIPELINE_ID: '1001',
      CI_COMMIT_SHA: commit,
      CI_COMMIT_BRANCH: 'main',
      CI_COMMIT_REF_NAME: 'main',
      CI_DEFAULT_BRANCH: 'main',
      CI_PROJECT_URL: 'https://gitlab.example.org/shop',
      CI_PIPELINE_IID: '17',
      CI_PIPELINE_URL: 'https://gitlab.example.org/shop/-/pipelines/1001',
      CI_JOB_URL: 'https://gitlab.example.org/shop/-/jobs/2002',
      GITLAB_USER_LOGIN: 'tanuki',
      CI_COMMIT_MESSAGE: 'New header',
      CI_PROJECT_DIR: '/tmp/work'
    }
  },
  'Gitea Actions': {
    files: { 'gitea/deploy.yml': '.gitea/workflows/deploy.yml' },
    client: 'ci/svc',
    secret: 'SVC_DEPLOY_TOKEN',
    jobs: around => workflowJobs('.gitea/workflows/deploy.yml', around),
    env: {
      CI: 'true',
      GITEA_ACTIONS: 'true',
      GITHUB_ACTIONS: 'true',
      GITHUB_SHA: commit,
      GITHUB_REF: 'refs/heads/main',
      GITHUB_REF_NAME: 'main',
      GITHUB_SERVER_URL: 'https://gitea.example.org',
      GITHUB_REPOSITORY: 'example/shop',
      GITHUB_RUN_NUMBER: '17',
      GITHUB_ACTOR: 'cup',
      GITHUB_WORKSPACE: '/tmp/work'
    }
  },
  Woodpecker: {
    files: { 'woodpecker/deploy.yml': '.woodpecker/deploy.yml' },
    client: 'ci/svc',
    secret: 'svc_deploy_token',
    jobs: around => woodpeckerJobs('.woodpecker/deploy.yml', around),
    env: {
      CI: 'woodpecker',
      CI_COMMIT_SHA: commit,
      CI_COMMIT_BRANCH: 'main',
      CI_COMMIT_AUTHOR: 'beak',
      CI_COMMIT_MESSAGE: 'New header',
      CI_REPO_URL: 'https://git.example.org/shop',
      CI_PIPELINE_NUMBER: '17',
      CI_PIPELINE_URL: 'https://ci.example.org/repos/1/pipeline/17'
    }
  },
  Jenkins: {
    files: { 'jenkins/Jenkinsfile': 'Jenkinsfile' },
    client: 'ci/svc',
    secret: 'svc-deploy-token',
    jobs: around => jenkinsJobs('Jenkinsfile', around),
    env: {
      CI: 'true',
      JENKINS_URL: 'https://jenkins.example.org/',
      BUILD_NUMBER: '17',
      BUILD_URL: 'https://jenkins.example.org/job/shop/17/',
      GIT_COMMIT: commit,
      GIT_BRANCH: 'origin/main',
      BRANCH_NAME: 'main',
      WORKSPACE: '/tmp/work',
      WORKSPACE_TMP: '/tmp/work@tmp'
    }
  }
}
