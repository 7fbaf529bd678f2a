const ofProject = 'project:'

/** Returns the id of the project whose deploy token acted; null if it was somebody else. */
export function projectOfActor(actor: string): string | null {
  return actor.startsWith(ofProject) ? actor.slice(ofProject.length) : null
}

/** Returns an actor as texts name it: `project:<id>` is the deploy token of the project. */
export function actorText(actor: string, nameOf: (projectId: string) => string | undefined): string {
  const id = projectOfActor(actor)
  return id === null ? actor : `the deploy token of ${nameOf(id) ?? id}`
}
