import { oneLine } from '../../base/text.js'
import {
  type CiRun,
  isCommitId,
  maxProvenanceBytes,
  type Provenance,
  provenanceLengths,
  webAddress,
  withoutCredentials
} from '../../model/provenance.js'
import { readGit } from './git.js'

/** Maximum length of each text if all of them together are too long for the form field. */
const shortLength = 100

/**
 * Returns the provenance of the files in a directory, from git and from the CI system that runs this process. git takes
 * precedence, except for the tag, since one commit can have several tags. Never rejects.
 */
export async function collectProvenance(
  directory: string,
  env: Readonly<Record<string, string | undefined>>
): Promise<Provenance> {
  const git = await readGit(directory, env)
  const ci = ciFacts(env)
  const provenance = joined({ ...git, tag: ci?.tag ?? git.tag }, ci, Infinity)
  const bytes = Buffer.byteLength(JSON.stringify(provenance))
  return bytes <= maxProvenanceBytes ? provenance : joined({ ...git, tag: ci?.tag ?? git.tag }, ci, shortLength)
}

function joined(git: Awaited<ReturnType<typeof readGit>>, ci: CiFacts | null, longest: number): Provenance {
  const { branch, tag, author, subject, repository } = provenanceLengths
  const text = (value: string | null | undefined, max: number): string | null =>
    cut(value ?? null, Math.min(max, longest))
  return {
    source: 'cli',
    commit: commitOf(git.commit) ?? commitOf(ci?.commit ?? null),
    branch: text(git.branch ?? ci?.branch, branch),
    tag: text(git.tag, tag),
    author: text(git.author, author),
    subject: text(git.subject, subject),
    dirty: git.dirty,
    repository: whole(addressOf(git.repository) ?? addressOf(ci?.repository ?? null), repository),
    ci: ci === null ? null : runOf(ci, text),
    by: null
  }
}

function runOf(ci: CiFacts, text: (value: string | null, max: number) => string | null): CiRun {
  const { run, url, actor } = provenanceLengths
  return {
    system: ci.system,
    run: text(ci.run, run),
    url: whole(webAddress(ci.url ?? ''), url),
    actor: text(ci.actor, actor)
  }
}

function commitOf(text: string | null): string | null {
  const id = text?.toLowerCase() ?? ''
  return isCommitId(id) ? id : null
}

/**
 * Returns an address without credentials. Returns null for a path, which would only reveal directories of this
 * machine.
 */
function addressOf(text: string | null): string | null {
  const address = text === null ? null : withoutCredentials(text)
  return address === null ? null : oneLine(address)
}

/** Returns an address unless it is too long. Shortening it would make it a different address. */
function whole(address: string | null, max: number): string | null {
  return address !== null && address.length <= max ? address : null
}

/** Shortens a text to one line, without splitting a surrogate pair. */
function cut(text: string | null, max: number): string | null {
  if (text === null) return null
  const line = oneLine(text.trim())
  return (line.length <= max ? line : line.slice(0, max).replace(/[\ud800-\udbff]$/, '')) || null
}

/*
 * The documented environment variables of continuous integration (CI) systems that describe a run. None of them is a
 * secret. A text in braces stands for a variable; a text applies if all its variables are set.
 */

/** One system: for each fact, the texts that can provide it, best first. */
interface CiSystem {
  system: string
  /** Variable that only this system sets. A value after "=" must match, in any case. */
  when: string
  run: readonly string[]
  url: readonly string[]
  actor: readonly string[]
  commit: readonly string[]
  branch: readonly string[]
  tag: readonly string[]
  /** Full ref names, refs/heads/… or refs/tags/…, which contain the branch or the tag. */
  ref?: readonly string[]
  repository: readonly string[]
}

/** The variables of GitHub, which Gitea and Forgejo also set. */
const actions = {
  run: ['{GITHUB_RUN_NUMBER}'],
  actor: ['{GITHUB_TRIGGERING_ACTOR}', '{GITHUB_ACTOR}'],
  commit: ['{GITHUB_SHA}'],
  // Set for pull requests, for which GITHUB_REF is refs/pull/….
  branch: ['{GITHUB_HEAD_REF}'],
  tag: [],
  ref: ['{GITHUB_REF}'],
  repository: ['{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}']
}

/** The known systems. A system that also sets the variables of another one comes before it. */
export const ciSystems: readonly CiSystem[] = [
  {
    ...actions,
    system: 'Forgejo Actions',
    when: 'FORGEJO_ACTIONS=true',
    url: ['{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_NUMBER}']
  },
  {
    ...actions,
    system: 'Gitea Actions',
    when: 'GITEA_ACTIONS=true',
    url: ['{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_NUMBER}']
  },
  {
    ...actions,
    system: 'GitHub Actions',
    when: 'GITHUB_ACTIONS=true',
    url: [
      '{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}/attempts/{GITHUB_RUN_ATTEMPT}',
      '{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}'
    ]
  },
  {
    system: 'GitLab CI',
    when: 'GITLAB_CI=true',
    run: ['{CI_PIPELINE_ID}'],
    url: ['{CI_PIPELINE_URL}', '{CI_JOB_URL}'],
    actor: ['{GITLAB_USER_LOGIN}', '{GITLAB_USER_NAME}'],
    commit: ['{CI_COMMIT_SHA}'],
    branch: ['{CI_MERGE_REQUEST_SOURCE_BRANCH_NAME}', '{CI_COMMIT_BRANCH}'],
    tag: ['{CI_COMMIT_TAG}'],
    // Not CI_REPOSITORY_URL, which contains the job's token.
    repository: ['{CI_PROJECT_URL}']
  },
  {
    system: 'Woodpecker',
    when: 'CI=woodpecker',
    run: ['{CI_PIPELINE_NUMBER}', '{CI_BUILD_NUMBER}'],
    url: ['{CI_PIPELINE_URL}', '{CI_PIPELINE_LINK}', '{CI_BUILD_LINK}'],
    actor: ['{CI_PIPELINE_AUTHOR}', '{CI_COMMIT_AUTHOR}'],
    commit: ['{CI_COMMIT_SHA}'],
    branch: ['{CI_COMMIT_SOURCE_BRANCH}', '{CI_COMMIT_BRANCH}'],
    tag: ['{CI_COMMIT_TAG}'],
    ref: ['{CI_COMMIT_REF}'],
    repository: ['{CI_REPO_URL}', '{CI_REPO_LINK}']
  },
  {
    system: 'Drone',
    when: 'DRONE=true',
    run: ['{DRONE_BUILD_NUMBER}'],
    url: ['{DRONE_BUILD_LINK}'],
    actor: ['{DRONE_COMMIT_AUTHOR}'],
    commit: ['{DRONE_COMMIT_SHA}', '{DRONE_COMMIT}'],
    branch: ['{DRONE_SOURCE_BRANCH}', '{DRONE_COMMIT_BRANCH}', '{DRONE_BRANCH}'],
    tag: ['{DRONE_TAG}'],
    repository: ['{DRONE_REPO_LINK}']
  },
  {
    system: 'Azure Pipelines',
    when: 'TF_BUILD=true',
    run: ['{BUILD_BUILDNUMBER}'],
    url: ['{SYSTEM_COLLECTIONURI}/{SYSTEM_TEAMPROJECT}/_build/results?buildId={BUILD_BUILDID}'],
    actor: ['{BUILD_REQUESTEDFOR}'],
    commit: ['{BUILD_SOURCEVERSION}'],
    branch: [],
    tag: [],
    ref: ['{SYSTEM_PULLREQUEST_SOURCEBRANCH}', '{BUILD_SOURCEBRANCH}'],
    repository: ['{BUILD_REPOSITORY_URI}']
  },
  {
    system: 'Bitbucket Pipelines',
    when: 'BITBUCKET_BUILD_NUMBER',
    run: ['{BITBUCKET_BUILD_NUMBER}'],
    url: ['https://bitbucket.org/{BITBUCKET_REPO_FULL_NAME}/pipelines/results/{BITBUCKET_BUILD_NUMBER}'],
    // Bitbucket only provides an account id, which does not help people.
    actor: [],
    commit: ['{BITBUCKET_COMMIT}'],
    branch: ['{BITBUCKET_BRANCH}'],
    tag: ['{BITBUCKET_TAG}'],
    repository: ['https://bitbucket.org/{BITBUCKET_REPO_FULL_NAME}']
  },
  {
    system: 'CircleCI',
    when: 'CIRCLECI=true',
    run: ['{CIRCLE_BUILD_NUM}'],
    url: ['{CIRCLE_BUILD_URL}'],
    actor: ['{CIRCLE_USERNAME}', '{CIRCLE_PR_USERNAME}'],
    commit: ['{CIRCLE_SHA1}'],
    branch: ['{CIRCLE_BRANCH}'],
    tag: ['{CIRCLE_TAG}'],
    repository: ['{CIRCLE_REPOSITORY_URL}']
  },
  {
    system: 'TeamCity',
    when: 'TEAMCITY_VERSION',
    run: ['{BUILD_NUMBER}'],
    url: ['{BUILD_URL}'],
    actor: [],
    commit: ['{BUILD_VCS_NUMBER}'],
    branch: [],
    tag: [],
    repository: []
  },
  {
    system: 'Buildkite',
    when: 'BUILDKITE=true',
    run: ['{BUILDKITE_BUILD_NUMBER}'],
    url: ['{BUILDKITE_BUILD_URL}'],
    actor: ['{BUILDKITE_BUILD_CREATOR}', '{BUILDKITE_BUILD_AUTHOR}'],
    commit: ['{BUILDKITE_COMMIT}'],
    branch: ['{BUILDKITE_BRANCH}'],
    tag: ['{BUILDKITE_TAG}'],
    repository: ['{BUILDKITE_REPO}']
  },
  {
    system: 'Jenkins',
    when: 'JENKINS_URL',
    run: ['{BUILD_NUMBER}'],
    url: ['{BUILD_URL}', '{RUN_DISPLAY_URL}'],
    actor: ['{BUILD_USER_ID}', '{CHANGE_AUTHOR}'],
    commit: ['{GIT_COMMIT}'],
    branch: ['{CHANGE_BRANCH}', '{BRANCH_NAME}', '{GIT_LOCAL_BRANCH}'],
    tag: ['{TAG_NAME}'],
    // GIT_BRANCH is "origin/main", and the name of the remote is not certain.
    repository: ['{GIT_URL}']
  }
]

/** The facts that a system provides about a run, unchecked; null if unknown. */
export interface CiFacts {
  system: string
  run: string | null
  url: string | null
  actor: string | null
  commit: string | null
  branch: string | null
  tag: string | null
  repository: string | null
}

type Environment = Readonly<Record<string, string | undefined>>

/** Returns the facts about the CI run of this process, or null outside of the known systems. */
export function ciFacts(env: Environment): CiFacts | null {
  const row = ciSystems.find(({ when }) => isThere(when, env))
  if (row === undefined) return null
  const read = (texts: readonly string[]): string | null => firstOf(texts, env)
  const ref = read(row.ref ?? [])
  const tag = read(row.tag) ?? afterPrefix(ref, 'refs/tags/')
  const branch = read(row.branch) ?? afterPrefix(ref, 'refs/heads/')
  return {
    system: row.system,
    run: read(row.run),
    url: read(row.url),
    actor: read(row.actor),
    commit: read(row.commit),
    // Some systems set the branch to the tag.
    branch: branch === tag ? null : branch,
    tag,
    repository: read(row.repository)
  }
}

function isThere(when: string, env: Environment): boolean {
  const [name, value] = when.split('=') as [string, string?]
  const found = env[name] ?? ''
  return value === undefined ? found !== '' : found.toLowerCase() === value
}

function firstOf(texts: readonly string[], env: Environment): string | null {
  for (const text of texts) {
    const names = [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string)
    if (names.every(name => (env[name] ?? '').trim() !== '')) return filled(text, env)
  }
  return null
}

/** Replaces the variables of a text. Within an address, values are escaped and trailing slashes are removed. */
function filled(text: string, env: Environment): string {
  const valueOf = (name: string): string => (env[name] as string).trim()
  if (/^\{\w+\}$/.test(text)) return valueOf(text.slice(1, -1))
  return text.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = valueOf(name)
    return /^https?:\/\//i.test(value)
      ? value.replace(/(?<!\/)\/+$/, '')
      : encodeURI(value).replace(/[?#]/g, encodeURIComponent)
  })
}

function afterPrefix(text: string | null, prefix: string): string | null {
  return text?.startsWith(prefix) ? text.slice(prefix.length) : null
}
