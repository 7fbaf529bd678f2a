/*
 * What a crash run knows: what was acknowledged, and what has been asked for since and may be there or not.
 */
import type { Site, Tree } from './crash-site.js'

/** A value that one writer at a time writes. */
export interface Register<T> {
  /** The values that may be found: the last acknowledged one, and those requested but not answered. */
  allowed(): readonly T[]
  settled(): T
  /** Begins a write. Call the returned function with its result. */
  ask(value: T): { acknowledged(): void; refused(): void }
  /** Records that the value was read, so that only this value is possible. */
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
  /** The files that it puts in place; null if its archive is damaged. */
  site: Site | null
  /** Its result if it is left alone; null if that depends on its script. */
  outcome: 'success' | 'failed' | null
  /** Whether a rollback to it may run scripts again that never end by themselves. */
  mayStay: boolean
  /** Null until its answer begins. */
  id: string | null
  /** Null until its end is known. */
  status: Register<string | null>
}

export interface ProjectModel {
  id: string
  name: string
  token: Register<string>
  target: string
  /** Names that all of its archives contain. */
  files: number
  /** The state of its target at the last check. */
  tree: Tree
  /** Records whose effect on `tree` is known. */
  known: Set<string>
  deployments: Map<number, DeploymentModel>
  fields: Register<ProjectFields>
  sources: Register<readonly string[]>
  isThere: Register<boolean>
}

/** A value that the server chooses. */
export const anyToken = '*'

/** Values that are written together. */
export interface ProjectFields {
  description: string
  env: string
}

/** The model of one data directory. */
export interface Model {
  projects: ProjectModel[]
  /** Names and targets of projects that were requested and not answered. */
  askedProjects: Set<string>
  settings: Register<Record<string, string>>
  tags: Register<readonly string[]>
  adminToken: Register<string>
}

/** Returns the message of a deployment, which identifies its record. */
export function messageOf(number: number): string {
  return `n${number}`
}

export function numberOf(message: string | null): number {
  return Number(message?.slice(1))
}
