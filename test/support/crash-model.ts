/*
 * What a crash run knows: what was acknowledged, and what has been asked for since and may be there or not.
 */
import type { Site, Tree } from './crash-site.js'

/** One thing that is written by one writer at a time. */
export interface Register<T> {
  /** What may be found: what was acknowledged last, and what was asked for and not answered. */
  allowed(): readonly T[]
  settled(): T
  /** Begins a write. Call the returned function with its result. */
  ask(value: T): { acknowledged(): void; refused(): void }
  /** It was looked at, so only this is so. */
  found(value: T): void
}

export function createRegister<T>(value: T): Register<T> {
  let settled = value
  let asked: T[] = []
  return {
    allowed: () => [settled, ...asked],
    settled: () => settled,
    ask(value) {
      asked = [value]
      return {
        acknowledged() {
          settled = value
          asked = []
        },
        refused() {
          asked = []
        }
      }
    },
    found(value) {
      settled = value
      asked = []
    }
  }
}

export interface DeploymentModel {
  number: number
  /** What it puts in place; null: its archive is damaged. */
  site: Site | null
  /** How it ends if nothing happens to it; null: that depends. */
  outcome: 'success' | 'failed' | null
  /** A rollback to it may run scripts again that do not end by themselves. */
  mayStay: boolean
  /** Null: its answer has not begun. */
  id: string | null
  /** Null: its end is not known. */
  status: Register<string | null>
}

export interface ProjectModel {
  id: string
  name: string
  token: Register<string>
  target: string
  /** Names that every archive of it has. */
  files: number
  /** What its target held when it was looked at last. */
  tree: Tree
  /** Records whose part in `tree` is known. */
  known: Set<string>
  deployments: Map<number, DeploymentModel>
  fields: Register<ProjectFields>
  sources: Register<readonly string[]>
  isThere: Register<boolean>
}

/** One that the server makes up. */
export const anyToken = '*'

/** Written together. */
export interface ProjectFields {
  description: string
  env: string
}

/** Everything of one data directory. */
export interface Model {
  projects: ProjectModel[]
  /** Names of projects that were asked for, with their targets: no answer has come. */
  askedProjects: Set<string>
  settings: Register<Record<string, string>>
  tags: Register<readonly string[]>
  adminToken: Register<string>
}

/** The message of a deployment, by which its record is known again. */
export function messageOf(number: number): string {
  return `n${number}`
}

export function numberOf(message: string | null): number {
  return Number(message?.slice(1))
}
