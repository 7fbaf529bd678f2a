import { Refusal } from '../base/refusal.js'
import { oneLine } from '../base/one-line.js'
import type { Project } from '../model/project.js'
import type { Api } from './api.js'
import { usage } from './args.js'

/** Settings of a project as options; the flag with its field is in `fieldOf`. An empty text resets the setting. */
export const projectOptions = {
  description: { type: 'text', value: 'text', help: 'what the project is' },
  label: { type: 'text', value: 'text', help: 'the environment that is shown beside its name, as "production"' },
  pre: { type: 'text', value: 'script', help: 'runs before the files are put in place; wins over scripts of clients' },
  post: { type: 'text', value: 'script', help: 'runs afterwards, in the target directory' },
  'post-async': { type: 'text', choices: ['true', 'false'], bare: 'true', value: 'true|false', help: 'whether the deployment ends without waiting for the script' },
  'client-scripts': { type: 'text', choices: ['true', 'false', 'default'], help: 'whether clients may send scripts; default follows the server' },
  'run-as': { type: 'text', value: 'user', help: 'the user whose rights scripts and files have' },
  umask: { type: 'text', value: 'octal', help: 'the umask of that user' },
  'max-disk-mb': { type: 'count', value: 'MB', help: 'limit of archives and outputs; 0: none' },
  pm2: { type: 'text', value: 'name', help: 'the PM2 application of the project' }
} as const

const switches = { true: true, false: false, default: null } as const

/** Which field an option sets, and to what. */
const fieldOf: { [flag in keyof typeof projectOptions]: (value: never) => Partial<Project> } = {
  description: (description: string) => ({ description }),
  label: (env: string) => ({ env }),
  pre: (preDeployScript: string) => ({ preDeployScript }),
  post: (postDeployScript: string) => ({ postDeployScript }),
  'post-async': (value: 'true' | 'false') => ({ postDeployAsync: switches[value] }),
  'client-scripts': (value: keyof typeof switches) => ({ allowClientScripts: switches[value] }),
  'run-as': (runAs: string) => ({ runAs }),
  umask: (umask: string) => ({ umask }),
  'max-disk-mb': (megabytes: number) => ({ maxDiskMb: megabytes === 0 ? null : megabytes }),
  pm2: (pm2AppName: string) => ({ pm2AppName: pm2AppName || null })
}

/** The fields that were given. */
export function projectFields(options: Readonly<Record<string, unknown>>): Partial<Project> {
  const given = Object.entries(fieldOf).filter(([flag]) => options[flag] !== undefined)
  return Object.assign({}, ...given.map(([flag, field]) => field(options[flag] as never)))
}

/** The project of an id or of a name. Refuses a name that is unknown, or that several projects have. */
export async function findProject(api: Api, word: string): Promise<Project> {
  if (/^proj_\w+$/.test(word)) return api.project(word)
  const found = (await api.projects()).filter(({ name }) => name === word)
  if (found.length === 1) return found[0] as Project
  if (found.length === 0) throw new Refusal('not_found', 'no_such_project', `Project not found: "${word}". "svc list" shows ids and names`)
  throw usage(word, `Several projects have the name "${word}": give the id, one of ${found.map(({ id }) => id).join(', ')}`)
}

/** A project as people name it. */
export function describeProject({ name, id, deployPath }: Project): string {
  return oneLine(`${name} (${id}) → ${deployPath}`)
}
