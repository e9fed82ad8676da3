/** Where delivery init_image takes Node.js from, and the image of the profile that has Node.js itself. */
export const runtimeImage = 'node:24-slim';

/** The profiles that Windlass comes with: `windlass init` writes them, and the files in examples/ are the same. */
export const shippedProfiles = {
  node: templateText({
    name: 'node',
    image: runtimeImage,
    imageComment: 'Any image with Node.js 20 or later, because the agent that Windlass delivers runs on it.',
  }),
  minimal: templateText({
    name: 'minimal',
    image: 'debian:13-slim',
    imageComment: 'Any image with a shell, and the C and C++ libraries that the Node.js of agent.image is linked to.',
  }),
  python: templateText({
    name: 'python',
    image: 'python:3.13-slim',
    imageComment: 'Any Python image that the Node.js of agent.image runs in: with that of Debian, no Alpine.',
  }),
} as const;

/** Every line is explained, because this is what people start their own profile from. */
function templateText({ name, image, imageComment }: Record<'name' | 'image' | 'imageComment', string>): string {
  return `# What an instance of the profile is made from: one core/v1 PodTemplate. Windlass adds the workspace, its agent and its labels.
apiVersion: v1
kind: PodTemplate
metadata:
  # Only for people: instances are named by Windlass.
  name: ${name}
template:
  spec:
    # These settings pass the Pod Security level "restricted".
    securityContext:
      # The image must not run as root,
      runAsNonRoot: true
      # so it runs as this user
      runAsUser: 1000
      # and this group,
      runAsGroup: 1000
      # which also gets the workspace: a fresh volume belongs to root otherwise.
      fsGroup: 1000
      # The system calls that a container runtime allows by default.
      seccompProfile:
        type: RuntimeDefault
    containers:
      # The name that mainContainer of the profile says.
      - name: agent
        # ${imageComment}
        image: ${image}
        resources:
          # What the scheduler sets aside
          requests:
            cpu: 250m
            memory: 256Mi
          # and where the container is stopped.
          limits:
            memory: 1Gi
        securityContext:
          # No sudo and the like.
          allowPrivilegeEscalation: false
          # No special rights of root.
          capabilities:
            drop: [ALL]
`;
}
