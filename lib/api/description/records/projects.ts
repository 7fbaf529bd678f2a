/* Schemas of projects and their labels, variables and files. */
import type { FileContent, FileEntry } from '../../../model/file-entry.js'
import { labelColors, type Label } from '../../../model/label.js'
import type { Project, RecentScripts } from '../../../model/project.js'
import type { Variable } from '../../../model/variable.js'
import { policy } from '../policy.js'
import {
  anyOf,
  boolean,
  constant,
  described,
  instant,
  integer,
  list,
  named,
  nullable,
  nullableInstant,
  oneOf,
  record,
  hidden,
  text
} from '../schema.js'
import { bytes, deployId, deployPath, env, message, projectId } from './common.js'

/** A project. */
export const project = named(
  'Project',
  record<Project>({
    id: projectId,
    name: text('Shop'),
    description: text(''),
    deployPath: described('The target: an absolute directory on the server', deployPath),
    token: hidden(
      text('9c1185a5c5e9fc54612808977ee8f548', {
        description: 'The deploy token of the project, a secret. Null for callers below admin'
      })
    ),
    preDeployScript: described(
      'Script to run before extraction. Empty means none, null that the caller may not see it. It replaces the script of a client',
      hidden(text(''))
    ),
    postDeployScript: described(
      'Script to run after extraction. Empty means none, null that the caller may not see it. It replaces the script of a client',
      hidden(text('systemctl restart shop'))
    ),
    postDeployAsync: described('Whether the post-deploy script runs in the background', boolean(false)),
    allowClientScripts: nullable(
      boolean(true, { description: 'Whether clients may send scripts. Null follows the setting allow_client_scripts' }),
      null
    ),
    allowedEnv: described(
      'Names, or PREFIX_*, of client variables that scripts get even if client scripts are not allowed',
      list(text('NODE_ENV'))
    ),
    runAs: described(
      'The user whose permissions apply to scripts and to writing the target. Null means the user of svc',
      nullable(text('www-data'), null)
    ),
    umask: described('File mode creation mask in octal. Null means the mask of svc', nullable(text('027'), null)),
    maxDiskMb: described(
      'Maximum size of the kept archives and outputs in MB. Null means no limit',
      nullable(integer(1000), null)
    ),
    policy: described(
      'How deployments treat the target, and when they are a success. Absent keys have their default',
      policy
    ),
    scriptTimeoutSeconds: described(
      'Maximum duration of a script in seconds. Null follows the setting script_timeout',
      nullable(integer(600), null)
    ),
    scriptShell: described(
      '`sh`, `bash` or the absolute path of a shell. Null means `sh`',
      nullable(text('/bin/bash'), null)
    ),
    scriptDirectory: described(
      'Working directory of the scripts, relative to the target. Null means the target',
      nullable(text('current'), null)
    ),
    env,
    categoryId: nullable(text('cat_1a2b3c4d5e6f7a8b'), null),
    pm2AppName: described('Name of the PM2 application of the project', nullable(text('shop'), null)),
    pinned: boolean(false),
    tagIds: list(text('tag_1a2b3c4d5e6f7a8b')),
    status: described(
      'The status of the last deployment, or `idle` if there was none',
      oneOf(['idle', 'running', 'success', 'failed'])
    ),
    lastDeployAt: nullableInstant,
    createdAt: instant,
    updatedAt: instant
  })
)

/** The scripts of an earlier deployment. */
export const recentScripts = record<RecentScripts>({
  deployId: described('The deployment that ran the scripts, or null', nullable(deployId)),
  preDeployScript: text(''),
  postDeployScript: text('systemctl restart shop')
})

/** A category or a tag. */
export const label = named(
  'Label',
  record<Label>({
    id: text('cat_1a2b3c4d5e6f7a8b'),
    name: text('Websites'),
    color: oneOf(labelColors),
    sortOrder: described('Position in lists: smaller numbers come first', integer(0)),
    projectCount: described('Number of projects with this label', integer(3)),
    createdAt: instant,
    updatedAt: instant
  })
)

/** An entry of a directory of a target. */
export const fileEntry = record<FileEntry>({
  name: text('index.html'),
  path: described('Path relative to the target', text('index.html')),
  isDir: boolean(false),
  isHidden: described('Whether the name begins with a dot', boolean(false)),
  size: bytes,
  mtime: described('Time of the last modification', instant)
})

/** The preview of a file of a target. */
export const fileContent = anyOf<FileContent[]>(
  record<Extract<FileContent, { type: 'text' }>>({
    type: constant('text'),
    content: text('<!doctype html>'),
    language: text('html')
  }) as never,
  record<Extract<FileContent, { type: 'binary' }>>({ type: constant('binary'), size: bytes, message }) as never
)

/** A variable of a project. */
export const variable = record<Variable>({
  name: text('API_KEY'),
  value: described('The value. Null for a secret', nullable(text('k-123'), null)),
  secret: boolean(true),
  hasValue: described(
    'Whether a value is stored. False for a secret that was imported without its value',
    boolean(true)
  ),
  updatedAt: instant
})
