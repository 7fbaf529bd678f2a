/** Last deployment's state, or `idle` where there was none (§2.1; decided: the value set). */
export type ProjectStatus = 'idle' | 'running' | 'success' | 'failed'

/** A project as it is stored and as the API answers it (§2.1). */
export interface Project {
  id: string
  name: string
  description: string
  /** Absolute, normalised directory on the server. */
  deployPath: string
  /** Project-specific deploy token: a secret. */
  token: string
  /** Empty: none. When set it takes precedence over any client-provided script. */
  preDeployScript: string
  postDeployScript: string
  postDeployAsync: boolean
  /** null: follow the setting `allow_client_scripts`. */
  allowClientScripts: boolean | null
  /** Names, or `PREFIX_*`, of the client's variables that reach its scripts when client scripts are off. */
  allowedEnv: string[]
  /** The user whose rights scripts and file operations below the target have; null: svc's own. */
  runAs: string | null
  /** Octal, three or four digits, for scripts and files below the target; null: svc's own. */
  umask: string | null
  /** How long a script may run; null: follow the setting `script_timeout`. */
  scriptTimeoutSeconds: number | null
  /** `sh`, `bash`, or the absolute path of a program that takes a script with `-c`; null: `sh`. */
  scriptShell: string | null
  /** Where scripts run, relative to the target and within it; null: the target itself. */
  scriptDirectory: string | null
  /** Limit of what svc keeps of the project (archives and outputs), in MB; null: no limit of its own. */
  maxDiskMb: number | null
  env: string
  categoryId: string | null
  pm2AppName: string | null
  pinned: boolean
  tagIds: string[]
  status: ProjectStatus
  lastDeployAt: string | null
  createdAt: string
  updatedAt: string
}

/** A hundred terabytes. */
export const maxDiskMbLimit = 100_000_000

export const defaultEnv = 'production'

/** The scripts of a project's last successful deployment that ran any, to fill the project's own in one click. */
export interface RecentScripts {
  deployId: string | null
  preDeployScript: string
  postDeployScript: string
}
